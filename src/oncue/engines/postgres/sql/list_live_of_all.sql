-- Everybody's, whatever the number of users. What waits is walked in the order of ids, and not all runs are jobs.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at, true as is_job from jobs
       where status = any(array[0]) and job_id < $6::uuid and 0 = any((select $3::int[])::int[])  -- status: 0 active
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null, true from jobs
       where status = any(array[1]) and job_id < $6 and 1 = any((select $3)::int[])  -- status: 1 paused
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null, true from jobs
       where status = any(array[2]) and job_id < $6 and 2 = any((select $3)::int[])  -- status: 2 finished
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select job_id, uid, class_id, version, status, spec, payload, created_at, updated_at, null, true from jobs
       where status = any(array[3]) and job_id < $6 and 3 = any((select $3)::int[])  -- status: 3 cancelled
       order by status desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where run_id < $6 and (select $3)::int[] && array[0, 1]
       order by run_id desc limit (select $4::int))
      union all
      (select run_id, uid, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null, true  -- status: 0 active, 3 cancelled
       from running where run_id < $6 and run_id = job_id and spec is not null and {running}
       order by run_id desc limit (select $4::int))
      order by job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by job_id desc limit (select $5::int)) p
where (select $1::int[]) is null
order by p.job_id desc limit (select $5::int)
