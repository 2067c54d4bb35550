-- If an edit slips in between, the recheck of the join fails and the job waits for the next pass.
select a.job_id, a.next_at, a.floor, a.planned, j.uid, j.version, j.class_id, j.spec
from agenda a join jobs j on j.job_id = a.job_id
where a.next_at <= $1 and j.status = 0
order by a.next_at, a.job_id limit $2 for update of a skip locked
