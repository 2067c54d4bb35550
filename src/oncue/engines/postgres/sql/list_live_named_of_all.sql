-- The same for jobs with a name, which is all the same in this order, and makes the planner take the index that has it.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from (
  select * from (
    select w.*, is_job and ($2::int[] is null or class_id in (select unnest($2::int[]))) as fits,
      row_number() over (order by name desc, job_id desc) = (select $4::int) as ends
    from (
      (select job_id, uid, name, class_id, version, status, spec, payload, created_at, updated_at, null::bigint as next_at,
         status = any($3::int[]) as is_job from jobs
       where (name, job_id) < ((select $7::text), (select $6::uuid)) and name >= (select $7)
       order by name desc, job_id desc limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, (held & 4 > 0)::int::smallint, spec, payload, null, updated_at, wanted,  -- held: 4 paused
         run_id = job_id and spec is not null and {held} from waiting
       where (name, run_id) < ((select $7), (select $6)) and name >= (select $7)
       order by name desc, run_id desc limit (select $4::int))
      union all
      (select run_id, uid, name, class_id, job_version, case when cancel_at is null then 0 else 3 end::smallint, spec, payload, null, updated_at, null,  -- status: 0 active, 3 cancelled
         true from running
       where run_id = job_id and spec is not null and run_id < $6 and name = $7 and {running}
       order by name desc, run_id desc limit (select $4::int))
      order by name desc, job_id desc limit (select $4::int)) w) w
  where fits or ends
  order by name desc, job_id desc limit (select $5::int)) p
where (select $1::int[]) is null
order by p.name desc, p.job_id desc limit (select $5::int)
