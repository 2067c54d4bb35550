-- When the first notice was wanted that nobody has tried to send. Those before it are passed over, up to a bound.
select min(wanted) from (select wanted, token from runs where job_id = ?1 and job_id <> run_id and wanted <= ?2 limit 1000) where token = 0
