-- Active attempts come before ended runs. Of the waiting runs the first thousand are read. Each job by its key: for many at once the planner would read all of history.
select i.job_id as near, l.*, least(
  (select wanted from waiting where run_id = i.job_id),
  (select min(wanted) from (
     select wanted, origin, token from waiting where job_id = i.job_id and job_id <> run_id order by wanted limit 1000) w
   where origin is null and token = 0)) as next_at
from unnest($1::uuid[]) i(job_id)
left join lateral (
  select * from (
    (select * from running_runs where run_id = i.job_id)
    union all (select * from running_runs where job_id = i.job_id and job_id <> run_id)
    union all (select * from waiting_runs where run_id = i.job_id and failures + losses > 0)
    union all (select * from (
      select * from waiting_runs where job_id = i.job_id and job_id <> run_id order by wanted limit 1000) w where failures + losses > 0)
    union all (select * from ended_runs where run_id = i.job_id limit 1)
    union all (select * from ended_runs where job_id = i.job_id and job_id <> run_id order by ended_at desc, run_id desc limit 1)) p
  where job_id = i.job_id
  order by ended_at desc nulls first, wanted desc, run_id desc limit 1) l on true
