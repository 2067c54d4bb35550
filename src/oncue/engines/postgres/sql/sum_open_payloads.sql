select coalesce(sum(octet_length(payload)), 0)::bigint from (
  select payload from jobs where uid = $1 and status < 2  -- status: 2 finished
  union all select payload from waiting where uid = $1 and run_id = job_id
  union all select payload from running where uid = $1 and run_id = job_id) found
