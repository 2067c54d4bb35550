select j.job_id, j.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = j.job_id)) as next_at
from unnest($1::uuid[]) i(job_id) cross join lateral (
  select job_id, uid, version, status, spec, payload, created_at, updated_at, null::bigint as next_at from jobs where job_id = i.job_id
  union all
  select job_id, uid, job_version, case state when 0 then (held & 4 > 0)::int when 1 then 0 when 4 then 3 else 2 end::smallint, spec,  -- state: 0 waiting, 1 running, 4 cancelled; held: 4 paused; status: 0 active, 2 finished, 3 cancelled
    payload, null, coalesce(ended_at, updated_at), next_at
  from one_shots where job_id = i.job_id
  union all
  select run_id, uid, job_version, 2, spec, payload, null, ended_at, null from dead where run_id = i.job_id and run_id = job_id and spec is not null  -- status: 2 finished
  limit 1) j
where $2::int is null or uid = $2
