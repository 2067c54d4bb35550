-- Counts up to a limit: a refused caller need not know how many there are beyond.
select count(*) from (
  select 1 from jobs where uid = ?1 and status < 2  -- status: 2 finished
  union all select 1 from runs where uid = ?1 and run_id = job_id
  limit ?2)
