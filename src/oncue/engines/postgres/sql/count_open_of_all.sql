-- Everybody's: see count_open. Whatever the number of users, no more than $1 of each kind are read. Of what waits: what is due
-- by now ($2), class by class, and the newest of the rest.
with recursive busy as (
  (select class_id from waiting where held = 0 and class_id > 0 order by class_id limit 1)  -- held: 0 no
  union all
  select n.class_id from busy b cross join lateral (
    select w.class_id from waiting w where w.held = 0 and w.class_id > b.class_id order by w.class_id limit 1) n),  -- held: 0 no
waiting_found as (
  select is_job, paused, tried, later, count(*) as n from (
    (select f.* from busy b cross join lateral (
      select run_id = job_id and spec is not null as is_job, false as paused, failures + losses > 0 as tried, false as later from waiting
      where class_id = b.class_id and held = 0 and due <= $2::bigint order by class_id, due, run_id limit (select $1::int)) f limit (select $1::int))  -- held: 0 no
    union all
    select is_job, held & 4 > 0, tried, due > $2 from (  -- held: 4 paused
      select run_id = job_id and spec is not null as is_job, held, due, failures + losses > 0 as tried from waiting
      order by run_id desc limit (select $1::int)) n where held > 0 or due > $2) w  -- held: 0 no
  group by 1, 2, 3, 4),
running_found as (
  select is_job, going, count(*) as n from (
    select run_id = job_id and spec is not null as is_job, cancel_at is null as going from running limit (select $1::int)) r
  group by 1, 2)
select 'job' as kind, 'active' as status, count(*) as n from (select from jobs where status = 0 order by job_id limit (select $1::int)) c  -- status: 0 active
union all select 'job', 'paused', count(*) from (select from jobs where status = 1 order by job_id limit (select $1::int)) c  -- status: 1 paused
union all select 'job', case when paused then 'paused' else 'active' end, n from waiting_found where is_job
union all select 'job', case when going then 'active' else 'cancelled' end, n from running_found where is_job
union all select 'run', case when tried then 'retrying' when later then 'scheduled' else 'queued' end, n from waiting_found
union all select 'run', case when going then 'running' else 'cancelling' end, n from running_found
