-- Each by its key: as joins these would read all of history.
delete from job_tags t where t.job_id < $1
  and (select job_id from jobs where job_id = t.job_id) is null
  and (select run_id from waiting where run_id = t.job_id) is null
  and (select run_id from running where run_id = t.job_id) is null
  and (select run_id from dead where run_id = t.job_id) is null
  and (select run_id from history where run_id = t.job_id limit 1) is null
