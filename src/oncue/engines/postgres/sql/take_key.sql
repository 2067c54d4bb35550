update job_keys set job_id = $3, definition = $4 where uid = $1 and key = $2 and job_id <> $3
