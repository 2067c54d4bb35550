-- Dead letters whose history was dropped: no index has their job, only their user.
select run_id from dead where uid = $2 and job_id = $1 and job_id <> run_id limit $3
