-- Of a job that was refused: the row was made for it, and nobody had the key before.
delete from job_keys where uid = $1 and key = $2 and job_id = $3
