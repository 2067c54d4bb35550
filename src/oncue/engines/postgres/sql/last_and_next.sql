-- What has not ended: the run that is the job itself, of its other runs that wait the first thousand, and the active attempts.
-- Each part by a key, as a set: for a join the planner would read all of the queue. What has ended is read afterwards: ended_of_jobs.
-- `next_at` is of runs that wait for their first attempt, `waits` of the run that is the job.
select run_id as near, w.*, wanted as next_at, true as waits from waiting_runs w where run_id = any($1::uuid[])
union all
select i.job_id, t.*, n.next_at, false from unnest($1) i(job_id) cross join lateral (
  select min(wanted) filter (where origin is null and token = 0) as next_at,
    (array_agg(run_id order by wanted desc, run_id desc) filter (where failures + losses > 0))[1] as tried
  from (
    select run_id, wanted, origin, token, failures, losses from waiting
    where job_id = i.job_id and job_id <> run_id order by wanted limit 1000) w
  having count(*) > 0) n
left join lateral (select * from waiting_runs where run_id = n.tried limit 1) t on true
union all
select run_id, r.*, null, false from running_runs r where run_id = any($1)
union all (
  select distinct on (job_id) job_id, r.*, null::bigint, false from running_runs r where job_id = any($1) and job_id <> run_id
  order by job_id, wanted desc, run_id desc)
