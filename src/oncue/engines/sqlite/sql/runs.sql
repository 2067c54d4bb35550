-- name: peek
-- Running runs are still in the index: at most as many as all workers have slots.
select run_id, due, class_id, uid from runs r
where class_id = ?1 and held = 0 and due > ?2 and due <= ?3 and not exists (select 1 from running x where x.run_id = r.run_id)  -- held: 0 no
order by due, run_id limit ?4

-- name: held_by
-- In the shape of a claim. A worker that was declared dead holds nothing, even before its runs are recovered.
select r.run_id, x.token, r.job_id, r.uid, r.class_id, r.due, r.wanted, r.nominal, r.origin, r.trigger, r.job_version,
  r.failures, r.losses, r.lane, r.gate, r.attempts, coalesce(x.checkpoint, r.checkpoint),
  coalesce(r.spec, j.spec, v.spec), iif(r.spec is not null, r.payload, coalesce(j.payload, v.payload)),
  r.spec is not null, r.parent, r.updated_at, x.claimed_at,
  nullif(max(coalesce(r.free_at, 0), coalesce((select q.at from resumed q cross join classes c on c.queue = q.queue where c.class_id = r.class_id), 0)), 0)
from carray(?1) asked cross join running x on x.run_id = asked.value cross join runs r on r.run_id = x.run_id
left join jobs j on r.spec is null and j.job_id = r.job_id and j.version = r.job_version
left join job_versions v on r.spec is null and v.job_id = r.job_id and v.version = r.job_version
where x.worker_id = ?2 and exists (select 1 from workers w where w.worker_id = ?2)

-- name: holdings
-- A worker that was declared dead holds nothing, even before its runs are recovered.
select run_id, token, claimed_at from running where worker_id = ?1 and exists (select 1 from workers where worker_id = ?1)

-- name: gather
-- Runs that only the rate of this one holds: free, to be claimed next.
-- What has a checkpoint or was requeued has been sent, or may have been, in a message of its own.
update runs set held = 0 where run_id in (  -- held: 0 no
  select r.run_id from runs r
  where r.meter = (select l.meter from runs l join running x on x.run_id = l.run_id where l.run_id = ?1 and x.worker_id = ?2 and x.token = ?3)
    and r.held = 8 and r.due <= ?4 and r.checkpoint is null and r.parent is null  -- held: 8 rate
  order by r.due, r.run_id limit ?5)
returning run_id

-- name: orphans
-- Runs whose worker is not registered (any more), in the shape of a claim.
select r.run_id, x.token, r.job_id, r.uid, r.class_id, r.due, r.wanted, r.nominal, r.origin, r.trigger, r.job_version,
  r.failures, r.losses, r.lane, r.gate, r.attempts, coalesce(x.checkpoint, r.checkpoint),
  coalesce(r.spec, j.spec, v.spec), iif(r.spec is not null, r.payload, coalesce(j.payload, v.payload)),
  r.spec is not null, r.parent, r.updated_at, x.claimed_at, nullif(max(coalesce(r.free_at, 0), 0), 0), x.worker_id
from running x cross join runs r on r.run_id = x.run_id
left join jobs j on r.spec is null and j.job_id = r.job_id and j.version = r.job_version
left join job_versions v on r.spec is null and v.job_id = r.job_id and v.version = r.job_version
where not exists (select 1 from workers w where w.worker_id = x.worker_id)
limit ?1

-- name: retry
-- Waits again and keeps its positions: no lane holds the run, only a pause of its job may, and its rate unless it was only returned to the queue.
update runs set due = ?1, token = ?2, failures = ?3, losses = ?4, attempts = ?5, expires_at = null, tried_at = ?11, free_at = ?11,
  held = iif((select status from jobs j where j.job_id = runs.job_id and runs.spec is null) = ?7, ?6, 0) | iif(meter is null, 0, ?8),
  checkpoint = coalesce((select checkpoint from running x where x.run_id = runs.run_id), checkpoint)
where run_id = ?12 returning meter, held, due

-- name: next_user
select uid from runs where uid > ? order by uid limit 1

-- name: peek_fair
-- The oldest and the newest of a user's runs, by their ids: late runs are mostly among them, however many are not due yet.
select r.run_id, r.due, r.class_id, r.uid
from (select run_id from (select run_id from runs where uid = ?1 order by run_id limit 200)
      union select run_id from (select run_id from runs where uid = ?1 order by run_id desc limit 200)) f
  cross join runs r on r.run_id = f.run_id
where r.held = 0 and r.due <= ?2 and r.class_id in (select value from carray(?3))  -- held: 0 no
  and not exists (select 1 from running x where x.run_id = r.run_id)
limit ?4

-- name: may_claim
-- A worker that was declared dead gets nothing, even if it has not noticed; nor does one that is drained, and a claim that comes
-- after its worker has sent a heartbeat later than its deadline.
select 1 from workers where worker_id = ? and drain_at is null and beat_at <= ?

-- name: claim
select r.run_id, r.token + 1, r.job_id, r.uid, r.class_id, r.due, r.wanted, r.nominal, r.origin, r.trigger, r.job_version,
  r.failures, r.losses, r.lane, r.gate, r.attempts, r.checkpoint,
  coalesce(r.spec, (select spec from jobs j where j.job_id = r.job_id and j.version = r.job_version),
    (select spec from job_versions v where v.job_id = r.job_id and v.version = r.job_version)),
  iif(r.spec is not null, r.payload, coalesce(
    (select payload from jobs j where j.job_id = r.job_id and j.version = r.job_version),
    (select payload from job_versions v where v.job_id = r.job_id and v.version = r.job_version))),
  r.spec is not null, r.parent, r.updated_at, ?2,
  nullif(max(coalesce(r.free_at, 0), coalesce((select q.at from resumed q cross join classes c on c.queue = q.queue where c.class_id = r.class_id), 0)), 0)
from carray(?1) asked cross join runs r on r.run_id = asked.value
where r.held = 0 and r.due <= ?2 and (r.expires_at is null or r.expires_at >= ?2)  -- held: 0 no
  and not exists (select 1 from running x where x.run_id = r.run_id)
  and r.class_id not in (select c.class_id from queues q join classes c on c.queue = q.queue)
  and r.job_id not in (select job_id from unfinished where stops)

-- name: hold_for
insert or fail into running (run_id, token, worker_id, claimed_at) select value, ?2, ?3, ?4 from carray(?1)

-- name: save
update running set progress = coalesce(?4, progress), checkpoint = coalesce(?5, checkpoint)
where run_id = ?1 and token = ?2 and worker_id = ?3 and worker_id in (select worker_id from workers)
returning run_id

-- name: fences
select x.run_id, x.token, x.cancel_at from carray(?1) asked cross join running x on x.run_id = asked.value where x.worker_id = ?2

-- name: ask_to_stop
update running set cancel_at = coalesce(cancel_at, ?1) where run_id = ?2 returning run_id, worker_id

-- name: end_waiting
insert or fail into {piece} (run_id, job_id, uid, class_id, state, wanted, nominal, trigger, job_version, token, failures, losses, parent,
  ended_at, attempts, name, spec, payload)
select r.run_id, r.job_id, r.uid, r.class_id, ?2, r.wanted, r.nominal, r.trigger, r.job_version, r.token, r.failures, r.losses, r.parent,
  ?3, r.attempts, r.name, r.spec, r.payload
from carray(?1) asked cross join runs r on r.run_id = asked.value
