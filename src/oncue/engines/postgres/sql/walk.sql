-- All runs, held or not: the walk passes each once.
select run_id, wanted, nominal, origin, held, token, job_version from waiting
where job_id = $1 and job_id <> run_id and wanted >= $2 and (wanted > $2 or run_id > $3)
order by wanted, run_id limit $4
