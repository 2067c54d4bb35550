-- Not while a run waits or runs that was planned under it: it could not be claimed any more.
delete from job_versions v where v.until < $1
  and not exists (select from waiting w where w.job_id = v.job_id and w.job_id <> w.run_id and w.job_version = v.version)
  and not exists (select from running r where r.job_id = v.job_id and r.job_id <> r.run_id and r.job_version = v.version)
