select * from running_runs where ($1::int is null or uid = $1) and ($2::uuid is null or job_id = $2)
  and wanted >= $3 and wanted < $4 and run_id > $5 order by run_id limit $6
