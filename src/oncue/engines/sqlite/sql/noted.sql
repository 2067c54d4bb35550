select since, drop_before, purge, run_id from unfinished where job_id = ?
