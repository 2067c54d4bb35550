update workers set drain_at = null where worker_id = $1 returning worker_id
