-- Of a reference, the size of its object counts.
select coalesce(sum(iif(substr(payload, 1, 1) = x'01', json_extract(cast(substr(payload, 2) as text), '$.size'), length(payload))), 0) from (
  select payload from jobs where uid = ?1 and status < 2  -- status: 2 finished
  union all select payload from runs where uid = ?1 and run_id = job_id)
