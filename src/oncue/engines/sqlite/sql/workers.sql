-- name: register
insert into workers (worker_id, name, host, lease, started_at, beat_at, draining, classes, info, drain_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set name = excluded.name, host = excluded.host, lease = excluded.lease, beat_at = excluded.beat_at,
  draining = excluded.draining, classes = excluded.classes, info = excluded.info,
  drain_at = coalesce(workers.drain_at, excluded.drain_at)

-- name: name_worker
insert into worker_names (worker_id, name, seen_at) values (?, ?, ?)
on conflict do update set name = excluded.name, seen_at = excluded.seen_at

-- name: beat
-- `beat_at` differs each time, also when the clock was set back to where it was.
update workers set beat_at = ?1 + (beat_at = ?1), draining = ?2, classes = coalesce(?3, classes), load = coalesce(?5, load) where worker_id = ?4 returning drain_at

-- name: cancel_requests
select run_id from running where worker_id = ? and cancel_at is not null order by run_id

-- name: expire_workers
delete from workers where worker_id = ? and beat_at = ? returning worker_id

-- name: leave
delete from workers where worker_id = ?
returning worker_id, name, host, lease, started_at, beat_at, draining, classes, info, load, drain_at

-- name: drain
update workers set drain_at = coalesce(drain_at, ?2) where worker_id = ?1 returning worker_id

-- name: undrain
update workers set drain_at = null where worker_id = ?1 returning worker_id

-- name: workers
select worker_id, name, host, lease, started_at, beat_at, draining, classes, info, load, drain_at from workers order by started_at, worker_id

-- name: announce
insert into tasks (task, schema, defaults, roles, announced_at) values (?, ?, ?, ?, ?)
on conflict do update set schema = excluded.schema, defaults = excluded.defaults, roles = excluded.roles, announced_at = excluded.announced_at
where excluded.announced_at >= tasks.announced_at

-- name: tasks
select task, schema, defaults, roles, announced_at from tasks order by task

-- name: paused_by
select b.queue, b.uid from queues q join paused_by b on b.queue = q.queue and b.paused_at = q.paused_at

-- name: known_members
select member_id, role, version, schema, host, started_at, beat_at from members order by started_at, member_id

-- name: beat_of_member
insert into members (member_id, role, version, schema, host, started_at, beat_at) values (?, ?, ?, ?, ?, ?, ?)
on conflict (member_id) do update set beat_at = excluded.beat_at
