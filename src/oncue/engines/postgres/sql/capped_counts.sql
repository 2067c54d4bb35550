-- Each user's by the index in which they are next to each other, and no more than $2 of each kind. Of what waits: what is wanted
-- by now ($3), and what is wanted later.
with users_asked as materialized (select unnest($1::int[]) as uid),
waiting_runs_found as (
  select * from (select f.* from users_asked u cross join lateral (
    select run_id = job_id and spec is not null as is_job, held, due, failures + losses as tries from waiting
    where uid = any(array[u.uid]) and wanted <= $3::bigint order by uid, wanted, run_id limit (select $2::int)) f limit (select $2::int)) n
  union all
  select * from (select f.* from users_asked u cross join lateral (
    select run_id = job_id and spec is not null, held, due, failures + losses from waiting
    where uid = any(array[u.uid]) and wanted > $3 order by uid, wanted, run_id limit (select $2::int)) f limit (select $2::int)) l),
running_found as (
  select run_id = job_id and spec is not null as is_job, cancel_at from running where uid = any($1) limit (select $2::int)),
ended_found as (
  select f.* from users_asked u cross join lateral (
    select state, run_id = job_id and spec is not null as is_job from history
    where uid = u.uid order by ended_at desc, run_id desc limit (select $2::int)) f limit (select $2::int))
select 'job' as kind, 'active' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 0 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 0 active
union all select 'job' as kind, 'paused' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 1 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 1 paused
union all select 'job' as kind, 'finished' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 2 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 2 finished
union all select 'job' as kind, 'cancelled' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 3 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 3 cancelled
union all select 'job', case when held & 4 > 0 then 'paused' else 'active' end, count(*) from waiting_runs_found where is_job group by 2  -- held: 4 paused
union all select 'job', case when cancel_at is null then 'active' else 'cancelled' end, count(*) from running_found where is_job group by 2
union all select 'job', case when state = 4 then 'cancelled' else 'finished' end, count(*) from ended_found where is_job group by 2  -- state: 4 cancelled
union all select 'run', case when tries > 0 then 'retrying' when due > $3 then 'scheduled' else 'queued' end, count(*) from waiting_runs_found group by 2
union all select 'run', case when cancel_at is null then 'running' else 'cancelling' end, count(*) from running_found group by 2
union all select 'run', case state when 2 then 'succeeded' when 3 then 'dead' when 4 then 'cancelled' else 'expired' end, count(*) from ended_found group by 2  -- state: 2 succeeded, 3 dead, 4 cancelled
union all select 'letter', '', count(*) from (select from users_asked u cross join lateral (
  select from dead where uid = any(array[u.uid]) order by uid desc, ended_at desc, run_id desc limit (select $2::int)) f limit (select $2::int)) c
