-- Of a job that was refused: there is nothing to repeat.
delete from repeats where uid = $1 and key_hash = $2 and job_id = $3
