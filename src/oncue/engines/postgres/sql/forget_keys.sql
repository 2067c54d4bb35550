-- Each by its key: as joins these would read all of history.
delete from job_keys k where k.job_id < $1
  and (select job_id from jobs where job_id = k.job_id) is null
  and (select run_id from waiting where run_id = k.job_id) is null
  and (select run_id from running where run_id = k.job_id) is null
  and (select run_id from dead where run_id = k.job_id) is null
  and (select run_id from history where run_id = k.job_id limit 1) is null
