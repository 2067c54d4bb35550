-- As runs_of_job, of many jobs, ?1, in any order, and at most ?2.
select r.job_id, r.run_id, r.wanted, r.nominal, r.origin, r.held, r.token, r.tries, exists (select 1 from running x where x.run_id = r.run_id) from (
  select job_id, run_id, wanted, nominal, origin, held, token, failures + losses as tries from runs
  where run_id in (select unhex(value) from json_each(?1)) and job_id = run_id
  union all
  select job_id, run_id, wanted, nominal, origin, held, token, failures + losses from runs
  where job_id in (select unhex(value) from json_each(?1)) and job_id <> run_id) r
limit ?2
