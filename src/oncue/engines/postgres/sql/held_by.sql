select run_id, token from running where run_id = any($1::uuid[]) and worker_id = $2
