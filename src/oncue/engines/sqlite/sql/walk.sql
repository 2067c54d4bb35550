-- All runs, held or not: the walk passes each once.
select run_id, wanted, nominal, origin, held, token, job_version from runs r
where job_id = ?1 and job_id <> run_id and run_id > ?2 and not exists (select 1 from running x where x.run_id = r.run_id)
order by run_id limit ?3
