delete from workers where worker_id = ?
returning worker_id, name, host, lease, started_at, beat_at, draining, classes, info, load, drain_at
