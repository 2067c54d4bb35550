-- Of a reference, the size of its object counts.
select coalesce(sum(case when substr(payload, 1, 1) = '\x01' then (convert_from(substr(payload, 2), 'UTF8')::json ->> 'size')::bigint
  else octet_length(payload) end), 0)::bigint from (
  select payload from jobs where uid = $1 and status < 2  -- status: 2 finished
  union all select payload from waiting where uid = $1 and run_id = job_id
  union all select payload from running where uid = $1 and run_id = job_id) found
