delete from history where run_id = any(array(
  select run_id from history where uid = $1 and job_id = $2 order by uid, ended_at, run_id limit $3)) returning run_id
