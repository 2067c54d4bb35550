select a.job_id, j.status, j.spec, j.created_at, j.updated_at, a.next_at, a.floor, a.planned, a.rules
from agenda a cross join lateral (select status, spec, created_at, updated_at from jobs where job_id = a.job_id limit 1) j
where a.job_id > $1 order by a.job_id limit $2
