-- Not while a run waits or runs that was planned under it: it could not be claimed any more.
delete from job_versions v where v.until < $1
  and (select run_id from waiting where job_id = v.job_id and job_id <> run_id and job_version = v.version limit 1) is null
  and (select run_id from running where job_id = v.job_id and job_id <> run_id and job_version = v.version limit 1) is null
