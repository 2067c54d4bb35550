select coalesce(sum(length(payload)), 0) from (
  select payload from jobs where uid = ?1 and status < 2  -- status: 2 finished
  union all select payload from runs where uid = ?1 and run_id = job_id)
