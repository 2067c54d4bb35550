select job_id, definition from job_keys where uid = ? and key = ?
