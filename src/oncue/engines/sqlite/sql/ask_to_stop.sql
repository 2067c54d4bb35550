update running set cancel_at = coalesce(cancel_at, ?1) where run_id = ?2 returning run_id, worker_id
