delete from job_versions where job_id = ?1 and version = ?2 and until < ?3 and not exists (
  select 1 from runs r where r.job_id = job_versions.job_id and r.job_id <> r.run_id and r.job_version = job_versions.version)
