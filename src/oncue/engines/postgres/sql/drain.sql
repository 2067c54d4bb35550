update workers set drain_at = coalesce(drain_at, $2) where worker_id = $1 returning worker_id
