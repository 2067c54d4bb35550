-- Releases the key of a refused job: the row was created for it, and no job had the key before.
delete from job_keys where uid = $1 and key = $2 and job_id = $3
