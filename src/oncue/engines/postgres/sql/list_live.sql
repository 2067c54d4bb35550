-- Recurring jobs of some statuses and one-shots that have not ended, newest first. {held} and {running} say which of those.
-- All lists of jobs walk up to $4 entries of each user's own indexes and stop at the $5th match; `ends` is the last entry
-- that the walk may read. A set of one (the user), and limits that PostgreSQL does not know beforehand, keep it to the index
-- with the requested order, and to one plan for all values: planning takes longer than reading.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, $2::int[] is null or class_id in (select unnest($2::int[])) as fits,
      row_number() over (order by uid desc, job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at from jobs
       where uid = any(array[u.uid]) and status = 0 and job_id < $6::uuid and 0 = any((select $3::int[])::int[])  -- status: 0 active
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null from jobs
       where uid = any(array[u.uid]) and status = 1 and job_id < $6 and 1 = any((select $3)::int[])  -- status: 1 paused
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null from jobs
       where uid = any(array[u.uid]) and status = 2 and job_id < $6 and 2 = any((select $3)::int[])  -- status: 2 finished
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null from jobs
       where uid = any(array[u.uid]) and status = 3 and job_id < $6 and 3 = any((select $3)::int[])  -- status: 3 cancelled
       order by uid desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted from waiting  -- held: 4 paused
       where uid = any(array[u.uid]) and run_id < $6 and run_id = job_id and spec is not null and {held}
       order by uid desc, run_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null  -- status: 0 active, 3 cancelled
       from running where uid = u.uid and run_id = job_id and spec is not null and run_id < $6 and {running}
       order by run_id desc limit (select $4::int))
      order by uid desc, job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by uid desc, job_id desc limit (select $5::int)) p
order by p.job_id desc limit (select $5::int)
