-- name: register
with named as (
  insert into worker_names (worker_id, name, seen_at) values ($1, $2, $6)
  on conflict (worker_id) do update set name = excluded.name, seen_at = excluded.seen_at)
insert into workers (worker_id, name, host, lease, started_at, beat_at, draining, classes, info, drain_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (worker_id) do update set name = excluded.name, host = excluded.host, lease = excluded.lease, beat_at = excluded.beat_at,
  draining = excluded.draining, classes = excluded.classes, info = excluded.info,
  drain_at = coalesce(workers.drain_at, excluded.drain_at)

-- name: beat
-- No row: the worker was declared dead. `beat_at` differs each time, also when the clock was set back to where it was. With its
-- place among live workers, each takes its share of a burst without talking to the others; and with that among those that take the
-- same classes and were not silent for half of their leases, its share of the sweeps.
with me as (
  update workers set beat_at = $2::bigint + (beat_at = $2::bigint)::int, draining = $3, classes = coalesce($4, classes), load = coalesce($5, load) where worker_id = $1
  returning drain_at, classes)
select count(w.worker_id) filter (where w.worker_id < $1) as place, count(w.worker_id) as peers, me.drain_at,
  count(w.worker_id) filter (where w.worker_id < $1 and w.classes = me.classes and w.beat_at > $2 - w.lease / 2) as alike_before,
  count(w.worker_id) filter (where w.worker_id <> $1 and w.classes = me.classes and w.beat_at > $2 - w.lease / 2) + 1 as alike
from me left join workers w on not w.draining and w.drain_at is null
group by me.drain_at

-- name: cancel_requests
select run_id from running where worker_id = $1 and cancel_at is not null

-- name: expire_workers
-- Locked in order. A worker with a heartbeat since then no longer matches, and stays.
delete from workers where worker_id in (
  select w.worker_id from workers w join unnest($1::uuid[], $2::bigint[]) t(worker_id, beat_at) using (worker_id, beat_at)
  order by w.worker_id for update of w)
returning worker_id

-- name: drain
update workers set drain_at = coalesce(drain_at, $2) where worker_id = $1 returning worker_id

-- name: undrain
update workers set drain_at = null where worker_id = $1 returning worker_id

-- name: worker_names
select worker_id, name from worker_names where worker_id = any($1::uuid[])

-- name: announce
insert into tasks (task, schema, defaults, roles, announced_at) values ($1, $2, $3, $4, $5)
on conflict (task) do update set schema = excluded.schema, defaults = excluded.defaults, roles = excluded.roles, announced_at = excluded.announced_at
where tasks.announced_at <= excluded.announced_at

-- name: outbox_wake
-- Rows of these tasks that are to be retried later: now. The others of the range lack a quota or object storage, for example.
update outbox set retry_at = 0 where ctid = any(array(
  select ctid from outbox where retry_at > 0 and retry_at < 4611686018427387904 and task = any($1::text[])
  limit $2 for update skip locked))
returning 1

-- name: pause_queue
with paused as (insert into queues (queue, paused_at) values ($1, $2) on conflict do nothing returning queue, paused_at)
insert into paused_by (queue, paused_at, uid) select queue, paused_at, $3 from paused where $3::int is not null
on conflict (queue) do update set paused_at = excluded.paused_at, uid = excluded.uid

-- name: resume_queue
with gone as (delete from queues where queue = $1 returning queue)
insert into resumed (queue, at) select queue, $2 from gone on conflict (queue) do update set at = excluded.at

-- name: paused_by
select b.queue, b.uid from queues q join paused_by b on b.queue = q.queue and b.paused_at = q.paused_at

-- name: known_members
select member_id, role, version, schema, host, started_at, beat_at from members order by started_at, member_id

-- name: beat_of_member
insert into members (member_id, role, version, schema, host, started_at, beat_at) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (member_id) do update set beat_at = excluded.beat_at
