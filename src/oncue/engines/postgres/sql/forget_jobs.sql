-- Jobs without any run, live, ended or dead. By their key: `status + 0` is in no index.
delete from jobs j where job_id = any($1::uuid[]) and status + 0 >= 2 and updated_at < $2  -- status: 2 finished
  and (select run_id from waiting where job_id = j.job_id and job_id <> run_id limit 1) is null
  and (select run_id from running where job_id = j.job_id and job_id <> run_id limit 1) is null
  and (select run_id from history where job_id = j.job_id and job_id <> run_id limit 1) is null
  and job_id <> all(array(select job_id from dead where uid = any($3::int[])))
returning job_id, uid, status, spec, payload
