-- Everybody's: see capped_counts. Whatever the number of users, no more than $1 of each kind are read. Of what waits: what is due
-- by now ($2), class by class, and the newest of the rest.
with recursive busy as (
  (select class_id from waiting where held = 0 and class_id > 0 order by class_id limit 1)  -- held: 0 no
  union all
  select n.class_id from busy b cross join lateral (
    select w.class_id from waiting w where w.held = 0 and w.class_id > b.class_id order by w.class_id limit 1) n),  -- held: 0 no
waiting_runs_found as (
  (select f.* from busy b cross join lateral (
    select run_id = job_id and spec is not null as is_job, held, due, failures + losses as tries from waiting
    where class_id = b.class_id and held = 0 and due <= $2::bigint order by class_id, due, run_id limit (select $1::int)) f limit (select $1::int))  -- held: 0 no
  union all
  select is_job, held, due, tries from (
    select run_id = job_id and spec is not null as is_job, held, due, failures + losses as tries from waiting
    order by run_id desc limit (select $1::int)) n where held > 0 or due > $2),  -- held: 0 no
running_found as (
  select run_id = job_id and spec is not null as is_job, cancel_at from running limit (select $1::int)),
ended_found as (
  select state, run_id = job_id and spec is not null as is_job from history order by run_id desc limit (select $1::int))
select 'job' as kind, 'active' as status, count(*) as n from (select from jobs where status = 0 order by job_id limit (select $1::int)) c  -- status: 0 active
union all select 'job', 'paused', count(*) from (select from jobs where status = 1 order by job_id limit (select $1::int)) c  -- status: 1 paused
union all select 'job', 'finished', count(*) from (select from jobs where status = 2 order by job_id limit (select $1::int)) c  -- status: 2 finished
union all select 'job', 'cancelled', count(*) from (select from jobs where status = 3 order by job_id limit (select $1::int)) c  -- status: 3 cancelled
union all select 'job', case when held & 4 > 0 then 'paused' else 'active' end, count(*) from waiting_runs_found where is_job group by 2  -- held: 4 paused
union all select 'job', case when cancel_at is null then 'active' else 'cancelled' end, count(*) from running_found where is_job group by 2
union all select 'job', case when state = 4 then 'cancelled' else 'finished' end, count(*) from ended_found where is_job group by 2  -- state: 4 cancelled
union all select 'run', case when tries > 0 then 'retrying' when due > $2 then 'scheduled' else 'queued' end, count(*) from waiting_runs_found group by 2
union all select 'run', case when cancel_at is null then 'running' else 'cancelling' end, count(*) from running_found group by 2
union all select 'run', case state when 2 then 'succeeded' when 3 then 'dead' when 4 then 'cancelled' else 'expired' end, count(*) from ended_found group by 2  -- state: 2 succeeded, 3 dead, 4 cancelled
union all select 'letter', '', count(*) from (select from dead order by ended_at desc, run_id desc limit (select $1::int)) c
