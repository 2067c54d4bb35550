select job_id from job_keys where uid = ? and key = ?
