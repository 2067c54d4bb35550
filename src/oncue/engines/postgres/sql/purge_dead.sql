-- Those that history has dropped: of these no index knows the job, but their user's.
delete from dead where run_id = any(array(select run_id from dead where uid = $2 and job_id = $1 and job_id <> run_id limit $3))
returning run_id
