-- What has not ended: the active attempts, and of the waiting runs the first thousand. `own`: the run that is the job itself may have ended.
-- Each job by its key: for many at once the planner would read all of the queue. What has ended is read afterwards, see ended_of_jobs.
select i.job_id as near, l.*, w.next_at,
  not (w.waits or coalesce(l.run_id = i.job_id, false) or exists (select from jobs where job_id = i.job_id)) as own
from unnest($1::uuid[]) i(job_id)
cross join lateral (
  select least(o.wanted, n.wanted) as next_at, o.wanted is not null as waits
  from (select (select wanted from waiting where run_id = i.job_id) as wanted) o, (
    select min(wanted) as wanted from (
      select wanted, origin, token from waiting where job_id = i.job_id and job_id <> run_id order by wanted limit 1000) w
    where origin is null and token = 0) n) w
left join lateral (
  select * from (
    select * from running_runs where run_id = i.job_id
    union all select * from running_runs where job_id = i.job_id and job_id <> run_id
    union all select * from waiting_runs where run_id = i.job_id and failures + losses > 0
    union all (select * from (
      select * from waiting_runs where job_id = i.job_id and job_id <> run_id order by wanted limit 1000) w where failures + losses > 0)) p
  order by wanted desc, run_id desc limit 1) l on true
