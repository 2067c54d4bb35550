select run_id from waiting where run_id = any($1::uuid[])
union all select job_id from jobs where job_id = any($1::uuid[])
