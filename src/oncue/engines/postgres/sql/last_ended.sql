-- The run of a one-shot, and the last runs of each job by its key. Of the attempts only the beginning, which has the first start.
select i.job_id as of_job, h.* from unnest($1::uuid[]) i(job_id) cross join lateral (
  select * from (
    (select run_id, state, wanted, nominal, started_at, ended_at, substr(attempts, 1, 120) as attempts, job_id from history where run_id = i.job_id limit 1)
    union all
    (select run_id, state, wanted, nominal, started_at, ended_at, substr(attempts, 1, 120), job_id from history
     where job_id = i.job_id and job_id <> run_id order by ended_at desc, run_id desc limit $2)) p
  where job_id = i.job_id
  order by ended_at desc, run_id desc limit $2) h
