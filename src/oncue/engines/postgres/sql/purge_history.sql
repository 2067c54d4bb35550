delete from history where job_id = $1
  and run_id = any(array(select run_id from history where job_id = $1 and job_id <> run_id limit $2)) returning run_id
