select uid, version, status from jobs where job_id = $1 for update
