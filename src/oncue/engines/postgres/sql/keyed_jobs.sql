-- Each key by its own index entry, and each job by its own: as lateral joins, or a plan may read all jobs.
select k.key, k.job_id as held_by, k.definition, j.*
from unnest($2::text[]) a(key)
  cross join lateral (select * from job_keys where uid = $1 and key = a.key limit 1) k
  left join lateral (select * from jobs where job_id = k.job_id limit 1) j on true
