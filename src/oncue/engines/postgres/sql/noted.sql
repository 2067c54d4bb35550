select since, drop_before, purge, wanted, run_id from unfinished where job_id = $1
