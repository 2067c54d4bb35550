select run_id, lane, gate from waiting where run_id = $1
union all select run_id, lane, gate from waiting where job_id = $1 and job_id <> run_id
