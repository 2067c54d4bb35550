select run_id from running where run_id = $1 or (job_id = $1 and job_id <> run_id)
