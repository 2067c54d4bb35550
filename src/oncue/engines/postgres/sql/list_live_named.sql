-- The same for jobs with a name. Not all runs are jobs.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by uid desc, job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at,
         status = any($3::int[]) as is_job from jobs
       where uid = any(array[u.uid]) and name = $7::text and job_id < $6::uuid
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where uid = any(array[u.uid]) and name = $7 and run_id < $6
       order by uid desc, run_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null,  -- status: 0 active, 3 cancelled
         true from running
       where uid = u.uid and run_id = job_id and spec is not null and run_id < $6 and name = $7 and {running}
       order by run_id desc limit (select $4::int))
      order by uid desc, job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by uid desc, job_id desc limit (select $5::int)) p
order by p.job_id desc limit (select $5::int)
