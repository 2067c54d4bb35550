select run_id, lane, gate from waiting where run_id = $1 or (job_id = $1 and job_id <> run_id)
