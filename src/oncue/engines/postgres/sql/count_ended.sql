-- See count_open.
with users_asked as materialized (select unnest($1::int[]) as uid),
ended_found as (
  select state, is_job, count(*) as n from (select f.* from users_asked u cross join lateral (
    select state, run_id = job_id and spec is not null as is_job from history
    where uid = u.uid order by ended_at desc, run_id desc limit (select $2::int)) f limit (select $2::int)) e
  group by 1, 2)
select 'job' as kind, 'finished' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 2 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 2 finished
union all select 'job', 'cancelled', count(*) from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 3 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 3 cancelled
union all select 'job', case when state = 4 then 'cancelled' else 'finished' end, n from ended_found where is_job  -- state: 4 cancelled
union all select 'run', case state when 2 then 'succeeded' when 3 then 'dead' when 4 then 'cancelled' else 'expired' end, n from ended_found  -- state: 2 succeeded, 3 dead, 4 cancelled
union all select 'letter', '', count(*) from (select from users_asked u cross join lateral (
  select from dead where uid = any(array[u.uid]) order by uid desc, ended_at desc, run_id desc limit (select $2::int)) f limit (select $2::int)) c
