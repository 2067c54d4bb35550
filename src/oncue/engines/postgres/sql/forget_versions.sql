-- Versions after ($1, $2). Not while a run that was planned under one waits or runs: it could not be claimed any more.
with bite as (select job_id, version, until from job_versions where (job_id, version) > ($1, $2) order by job_id, version limit $3),
gone as (
  delete from job_versions v using bite s where v.job_id = s.job_id and v.version = s.version and s.until < $4
    and (select run_id from waiting where job_id = s.job_id and job_id <> run_id and job_version = s.version limit 1) is null
    and (select run_id from running where job_id = s.job_id and job_id <> run_id and job_version = s.version limit 1) is null)
select job_id, version from bite order by job_id desc, version desc limit 1
