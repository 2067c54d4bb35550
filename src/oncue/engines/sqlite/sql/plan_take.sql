select j.job_id, j.uid, j.version, j.class_id, j.spec, a.next_at, a.floor, a.planned, a.rules
from agenda a cross join jobs j on j.job_id = a.job_id
where a.next_at >= ?1 and a.next_at <= ?2 and j.status = 0 and (a.rules is null or ?4)  -- status: 0 active
order by a.next_at, a.job_id limit ?3
