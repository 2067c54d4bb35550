select a.job_id, a.uid, j.class_id, j.spec, a.next_at, a.planned
from (
  select job_id, uid, next_at, planned from agenda
  where next_at >= $1 and next_at < $2 and (next_at, job_id) > ($3::bigint, $4::uuid) order by next_at, job_id limit $5) a
cross join lateral (select class_id, spec from jobs where jobs.job_id = a.job_id limit 1) j
order by a.next_at, a.job_id
