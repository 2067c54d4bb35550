-- Everybody's: see count_open_of_all.
with ended_found as (
  select state, is_job, count(*) as n from (
    select state, run_id = job_id and spec is not null as is_job from history order by run_id desc limit (select $1::int)) e
  group by 1, 2)
select 'job' as kind, 'finished' as status, count(*) as n from (select from jobs where status = 2 order by job_id limit (select $1::int)) c  -- status: 2 finished
union all select 'job', 'cancelled', count(*) from (select from jobs where status = 3 order by job_id limit (select $1::int)) c  -- status: 3 cancelled
union all select 'job', case when state = 4 then 'cancelled' else 'finished' end, n from ended_found where is_job  -- state: 4 cancelled
union all select 'run', case state when 2 then 'succeeded' when 3 then 'dead' when 4 then 'cancelled' else 'expired' end, n from ended_found  -- state: 2 succeeded, 3 dead, 4 cancelled
union all select 'letter', '', count(*) from (select from dead order by ended_at desc, run_id desc limit (select $1::int)) c
