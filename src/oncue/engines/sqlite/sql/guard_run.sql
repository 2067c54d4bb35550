select job_version, failures + losses from runs r
where run_id = ?1 and uid = ?2 and not exists (select 1 from running x where x.run_id = r.run_id)
