-- A job has few waiting runs: they are found by its key, then sorted.
select * from (
  (select * from waiting_runs where run_id = $1 limit 1)
  union all
  (select * from waiting_runs where job_id = $1 and job_id <> run_id offset 0)) p
where job_id = $1 and wanted >= $2 and wanted < $3 and (wanted, run_id) > ($4::bigint, $5::uuid)
order by wanted, run_id limit $6
