select i.job_id from unnest($1::uuid[]) i(job_id) cross join lateral (
  (select from jobs where job_id = i.job_id and status < 2)  -- status: 2 finished
  union all (select from waiting where run_id = i.job_id)
  union all (select from running where run_id = i.job_id and cancel_at is null)
  limit 1) found
