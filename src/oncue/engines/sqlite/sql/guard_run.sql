select job_version, iif(run_id = job_id, failures + losses, token) from runs r
where run_id = ?1 and uid = ?2 and not exists (select 1 from running x where x.run_id = r.run_id)
