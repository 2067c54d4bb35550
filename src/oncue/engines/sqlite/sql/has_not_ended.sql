select job_id from jobs where job_id = ?1 and status < 2
union all select run_id from runs where run_id = ?1
