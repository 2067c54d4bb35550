select run_id from running where run_id = $1
union all select run_id from running where job_id = $1 and job_id <> run_id
