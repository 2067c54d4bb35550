-- Counts up to a limit: a refused caller need not know how many there are beyond.
select count(*) from (
  (select from jobs where uid = $1 and status < 2)  -- status: 2 finished
  union all (select from waiting where uid = $1 and run_id = job_id)
  union all (select from running where uid = $1 and run_id = job_id)
  limit $2) found
