-- Each user's by the index in which they are next to each other, and no more than $2 of each kind. Of what waits: what is wanted
-- by now ($3); of what is wanted later only how many there are, which the index knows: nothing of it was tried; and the newest jobs.
with users_asked as materialized (select unnest($1::int[]) as uid),
jobs_waiting as (
  select paused, count(*) as n from (select f.* from users_asked u cross join lateral (
    select held & 4 > 0 as paused from waiting  -- held: 4 paused
    where uid = any(array[u.uid]) and run_id = job_id and spec is not null order by uid desc, run_id desc limit (select $2::int)) f limit (select $2::int)) w
  group by 1),
wanted as (
  select tried, later, count(*) as n from (select f.* from users_asked u cross join lateral (
    select failures + losses > 0 as tried, due > $3::bigint as later from waiting
    where uid = any(array[u.uid]) and wanted <= $3 order by uid, wanted, run_id limit (select $2::int)) f limit (select $2::int)) w
  group by 1, 2),
running_found as (
  select is_job, going, count(*) as n from (
    select run_id = job_id and spec is not null as is_job, cancel_at is null as going from running where uid = any($1) limit (select $2::int)) r
  group by 1, 2)
select 'job' as kind, 'active' as status, count(*) as n from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 0 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 0 active
union all select 'job', 'paused', count(*) from (select from users_asked u cross join lateral (
  select from jobs where uid = any(array[u.uid]) and status = 1 order by uid, job_id limit (select $2::int)) f limit (select $2::int)) c  -- status: 1 paused
union all select 'job', case when paused then 'paused' else 'active' end, n from jobs_waiting
union all select 'job', case when going then 'active' else 'cancelled' end, n from running_found where is_job
union all select 'run', case when tried then 'retrying' when later then 'scheduled' else 'queued' end, n from wanted
union all select 'run', 'scheduled', count(*) from (select from users_asked u cross join lateral (
  select from waiting where uid = any(array[u.uid]) and wanted > $3 order by uid, wanted, run_id limit (select $2::int)) f limit (select $2::int)) c
union all select 'run', case when going then 'running' else 'cancelling' end, n from running_found
