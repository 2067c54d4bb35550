delete from running where run_id = any($1::uuid[]) and worker_id = $2 and token = $3 returning run_id, cancel_at, checkpoint
