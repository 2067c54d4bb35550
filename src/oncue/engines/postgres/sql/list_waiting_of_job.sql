select * from (
  (select * from waiting_runs where run_id = $1 and job_id = $1)
  union all
  (select * from waiting_runs where job_id = $1 and job_id <> run_id)) p
where wanted >= $2 and wanted < $3 and (wanted, run_id) > ($4::bigint, $5::uuid)
order by wanted, run_id limit $6
