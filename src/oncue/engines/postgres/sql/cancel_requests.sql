select run_id from running where worker_id = $1 and cancel_at is not null
