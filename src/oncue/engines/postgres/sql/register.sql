with named as (
  insert into worker_names (worker_id, name, seen_at) values ($1, $2, $6)
  on conflict (worker_id) do update set name = excluded.name, seen_at = excluded.seen_at)
insert into workers (worker_id, name, host, lease, started_at, beat_at, draining, classes, info, drain_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (worker_id) do update set name = excluded.name, host = excluded.host, lease = excluded.lease, beat_at = excluded.beat_at,
  draining = excluded.draining, classes = excluded.classes, info = excluded.info,
  drain_at = coalesce(workers.drain_at, excluded.drain_at)
