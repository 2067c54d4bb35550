select * from waiting_runs where (run_id = $1 or (job_id = $1 and job_id <> run_id))
  and wanted >= $2 and wanted < $3 and (wanted, run_id) > ($4::bigint, $5::uuid)
order by wanted, run_id limit $6
