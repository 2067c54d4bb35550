select worker_id, name, host, lease, started_at, beat_at, draining, classes, info, load, drain_at from workers order by started_at, worker_id
