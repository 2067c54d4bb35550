-- After the cursors are locked, not with them: a join would pair a cursor that an edit wrote with the definition before that edit.
select a.job_id, a.next_at, a.floor, a.planned, a.rules, j.uid, j.version, j.class_id, j.spec
from agenda a join jobs j on j.job_id = a.job_id
where a.job_id = any($1::uuid[]) and j.job_id = any($1::uuid[]) and j.status = 0  -- status: 0 active
order by a.next_at, a.job_id
