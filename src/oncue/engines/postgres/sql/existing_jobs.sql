-- A job cannot have ended before it was made: older pieces of history are not looked at.
select run_id as job_id from waiting where run_id = any($1::uuid[])
union all select run_id from running where run_id = any($1::uuid[])
union all select job_id from jobs where job_id = any($1::uuid[])
union all select run_id from dead where run_id = any($1::uuid[])
union all select run_id from history where run_id = any($1::uuid[]) and ended_at >= $2
