update workers set beat_at = max(beat_at, ?1), draining = ?2, classes = coalesce(?3, classes) where worker_id = ?4 returning worker_id
