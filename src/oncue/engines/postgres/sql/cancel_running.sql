update running set cancel_at = coalesce(cancel_at, $2) where run_id = any($1::uuid[]) returning run_id, worker_id
