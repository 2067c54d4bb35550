-- name: busy_classes
-- From class to class by the index: it reads neither classes without waiting runs, nor how many runs wait.
with recursive busy as (
  (select class_id from waiting where held = 0 and class_id > 0 order by class_id limit 1)  -- held: 0 no
  union all
  select n.class_id from busy b cross join lateral (
    select w.class_id from waiting w where w.held = 0 and w.class_id > b.class_id order by w.class_id limit 1) n)  -- held: 0 no
select class_id from busy limit $1

-- name: held_by
-- In the shape of a claim. A worker that was declared dead holds nothing, even before its runs are recovered.
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at
from running where run_id = any($1::uuid[]) and worker_id = $2 and exists (select from workers where worker_id = $2)

-- name: cancel_running
update running set cancel_at = coalesce(cancel_at, $2) where run_id = any($1::uuid[]) returning run_id, worker_id

-- name: existing_runs
select i.run_id from unnest($1::uuid[]) i(run_id) cross join lateral (
  (select from waiting where run_id = i.run_id)
  union all (select from running where run_id = i.run_id)
  union all (select from dead where run_id = i.run_id)
  union all (select from history where run_id = i.run_id)
  limit 1) found

-- name: find_run
-- Finds a run's table by its key alone: the newest state last, so that a run that is being moved is found where it went.
select 0 as state, uid, lane, gate from waiting where run_id = $1  -- state: 0 waiting
union all select 1, uid, lane, gate from running where run_id = $1  -- state: 1 running
union all select state, uid, null, null from dead where run_id = $1
union all (select state, uid, null, null from history where run_id = $1 limit 1)

-- name: create_alike
-- As create_plain, for one-shots of a few kinds: what those of a kind have in common is sent, read and encoded once.
with there as (
  select from unnest($4::uuid[]) i(run_id) cross join lateral (
    (select from waiting where run_id = i.run_id)
    union all (select from running where run_id = i.run_id)
    union all (select from jobs where job_id = i.run_id)
    union all (select from dead where run_id = i.run_id)
    union all (select from history where run_id = i.run_id and ended_at >= $5)
    limit 1) found
  limit 1),
given as (
  select run_id, payload, k.* from unnest($1::uuid[], $2::int[], $3::bytea[]) r(run_id, kind, payload)
  join unnest($7::int[], $8::int[], $9::int[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bytea[],
      $15::bigint[], $16::int[], $17::uuid[], $18::text[], $19::bytea[], $20::text[])
    k(kind, uid, class_id, wanted, nominal, expires_at, name, spec, at, actor, key_id, action, detail, address) using (kind)
  where not exists (select from there)),
stored as (
  insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, expires_at, name, spec, payload)
  select run_id, run_id, uid, class_id, wanted, wanted, nominal, 0, 1, expires_at, name, spec, payload from given
  returning uid, class_id),
counted as (insert into tally (uid, class_id, what, n, at) select uid, class_id, 'created', count(*), $6::bigint from stored group by uid, class_id),
told as (
  insert into audit (at, uid, key_id, action, object_id, detail, address)
  select at, actor, key_id, action, run_id, detail, address from given where at is not null)
select count(*) from stored

-- name: create_plain
-- Stores all of these one-shots or none, with their audit entries: one statement is one round trip and one commit. If one of them
-- exists already nothing is stored, and the caller looks closer; a caller that has looked before gives no ids to look for ($18).
with there as (
  select from unnest($18::uuid[]) i(run_id) cross join lateral (
    (select from waiting where run_id = i.run_id)
    union all (select from running where run_id = i.run_id)
    union all (select from jobs where job_id = i.run_id)
    union all (select from dead where run_id = i.run_id)
    union all (select from history where run_id = i.run_id and ended_at >= $10)
    limit 1) found
  limit 1),
stored as (
  insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, expires_at, name, spec, payload)
  select run_id, run_id, uid, class_id, wanted, wanted, nominal, 0, 1, expires_at, name, spec, payload
  from unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bytea[], $9::bytea[])
    t(run_id, uid, class_id, wanted, nominal, expires_at, name, spec, payload)
  where not exists (select from there)
  returning uid, class_id),
counted as (insert into tally (uid, class_id, what, n, at) select uid, class_id, 'created', count(*), $19::bigint from stored group by uid, class_id),
told as (
  insert into audit (at, uid, key_id, action, object_id, detail, address)
  select * from unnest($11::bigint[], $12::int[], $13::uuid[], $14::text[], $15::uuid[], $16::bytea[], $17::text[]) d
  where not exists (select from there))
select count(*) from stored

-- name: create_keyed
-- Stores these one-shots with their idempotency keys and audit entries, and returns the ids of the stored ones. A job whose key
-- another request has, or that exists already ($19: none of them is older), is left for the caller to look at: the other request
-- may have ended after this statement began. PostgreSQL locks all tables of a statement before it reads, and the switch of the
-- generations empties one of these tables: a statement that waited for it sees the new current one.
with given as (
  select * from unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bytea[], $9::bytea[],
      $10::bytea[], $11::bytea[], $12::bigint[], $13::int[], $14::uuid[], $15::text[], $16::uuid[], $17::bytea[], $18::text[]) with ordinality
    t(run_id, uid, class_id, wanted, nominal, expires_at, name, spec, payload, key_hash, body_hash,
      at, actor, key_id, action, object_id, detail, address, place)),
zero as (
  insert into repeats_0 (uid, key_hash, body_hash, made)
  select uid, key_hash, body_hash, run_id from given g where key_hash is not null and (select current from repeats_turn) = 0
    and (select made from repeats_1 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash, place
  on conflict (uid, key_hash) do nothing returning made),
one as (
  insert into repeats_1 (uid, key_hash, body_hash, made)
  select uid, key_hash, body_hash, run_id from given g where key_hash is not null and (select current from repeats_turn) = 1
    and (select made from repeats_0 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash, place
  on conflict (uid, key_hash) do nothing returning made),
fresh as (
  select * from given g
  where (key_hash is null or run_id in (select made from zero union all select made from one))
    and (select true from (
      (select from waiting where run_id = g.run_id)
      union all (select from running where run_id = g.run_id)
      union all (select from jobs where job_id = g.run_id)
      union all (select from dead where run_id = g.run_id)
      union all (select from history where run_id = g.run_id and ended_at >= $19)
      limit 1) there) is null),
stored as (
  insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, expires_at, name, spec, payload)
  select run_id, run_id, uid, class_id, wanted, wanted, nominal, 0, 1, expires_at, name, spec, payload from fresh
  returning run_id, uid, class_id),
counted as (insert into tally (uid, class_id, what, n, at) select uid, class_id, 'created', count(*), $20::bigint from stored group by uid, class_id),
told as (
  insert into audit (at, uid, key_id, action, object_id, detail, address)
  select at, actor, key_id, action, object_id, detail, address from fresh where at is not null)
select run_id from stored

-- name: peek
select r.run_id, r.due, c.class_id, r.uid
from unnest($1::int[]) c(class_id) cross join lateral (
  select w.run_id, w.due, w.uid from waiting w
  where w.class_id = c.class_id and w.held = 0 and w.due > $2 and w.due <= $3  -- held: 0 no
  order by w.due, w.run_id limit $4) r
order by r.due, r.run_id

-- name: peek_fair
-- From user to user by the index that begins with them, around once at most; a user with nothing due takes no turn.
-- Of each user only the first thousand runs are read, so that the cost does not grow with how many one user has.
-- Users without a turn are also returned, each once: the last of them tells how far the search came.
with recursive turn as (
  select f.uid, f.uid as first, 1 as seen, (f.wanted <= $5)::int as late from (
    (select uid, wanted from waiting where uid > $2 order by uid, wanted limit 1)
    union all
    (select uid, wanted from waiting where uid > 0 order by uid, wanted limit 1)
    limit 1) f
  union all
  select n.uid, t.first, t.seen + 1, t.late + (n.wanted <= $5)::int from turn t cross join lateral (
    (select uid, wanted from waiting where uid > t.uid order by uid, wanted limit 1)
    union all
    (select uid, wanted from waiting where uid > 0 order by uid, wanted limit 1)
    limit 1) n
  where n.uid <> t.first and t.late < $3::int and t.seen < $6::int)
select r.run_id, r.due, r.class_id, t.uid from turn t left join lateral (
  select w.run_id, w.due, w.class_id, w.wanted from (
    select run_id, due, class_id, held, wanted from waiting
    where uid = t.uid and wanted <= $5 order by wanted, run_id limit 1000) w
  where w.held = 0 and w.due <= $5 and w.class_id = any($1::int[])  -- held: 0 no
  order by w.wanted, w.run_id limit $4) r on true
order by t.seen, r.wanted, r.run_id

-- name: claim
-- A worker that was declared dead gets nothing, even if it has not noticed: its row is gone, or about to go and we wait for that.
-- Nor does one that is drained, and a claim that arrives after its worker has sent a heartbeat later than its deadline.
-- The rows are locked by their key, then removed by their place: one index descent a run. `held + 0` keeps the planner from
-- walking everything that is due (the index where held = 0) while the statistics are young: 13 ms a thousand became 420.
with me as (select from workers where worker_id = $2 and drain_at is null and beat_at <= $4 for key share),
taken as (
  delete from waiting where exists (select from me) and ctid = any(array(
    select ctid from waiting
    where run_id = any($1::uuid[]) and due <= $3 and held + 0 = 0 and (expires_at is null or expires_at >= $3)  -- held: 0 no
      and class_id <> all(array(select c.class_id from queues q join classes c using (queue)))
      and job_id <> all(array(select unnest(stopped_jobs())))
    for update skip locked))
  returning *),
held as (
  insert into running (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, worker_id, claimed_at, free_at)
  select run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token + 1, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, $2, $3, greatest(case when free_at > 0 then free_at end,
    case when class_id = any(array(select c.class_id from resumed q join classes c using (queue)))
      then (select q.at from resumed q join classes c using (queue) where c.class_id = taken.class_id) end) from taken
  returning *)
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at from held

-- name: holdings
-- A worker that was declared dead holds nothing, even before its runs are recovered. All that runs is read: an index by
-- worker would cost every claim and settle.
select run_id, token, claimed_at from running where worker_id = $1 and exists (select from workers where worker_id = $1)

-- name: gather
-- Like a claim, of runs that only the rate of this one holds: they go with it. It is locked: its end waits for what it took.
-- What has a checkpoint or was requeued has been sent, or may have been, in a message of its own.
with me as (select from workers where worker_id = $2 and drain_at is null for key share),
taken as (
  delete from waiting where exists (select from me) and ctid = any(array(
    select ctid from waiting
    where meter = (select meter from running where run_id = $1 and worker_id = $2 and token = $3 for update) and held = 8 and due <= $4  -- held: 8 rate
      and checkpoint is null and parent is null
    order by due, run_id limit $5 for update skip locked))
  returning *),
held as (
  insert into running (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, worker_id, claimed_at, free_at)
  select run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token + 1, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, $2, $4, greatest(free_at, 0) from taken
  returning *)
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at from held

-- name: save
update running set progress = coalesce($4, progress), checkpoint = coalesce($5, checkpoint), payload = coalesce($6, payload)
where run_id = $1 and worker_id = $2 and token = $3 returning run_id

-- name: settle_final
-- The fence is (run, token, worker): a run that is not returned was lost, and a worker declared dead has lost all its runs.
-- The whole row goes into history, so only the attempt's outcome is sent; an array that is null stands for nulls.
-- The runs are sorted, and width_bucket finds the place of each in the arrays: a join would read all running runs, if
-- the table was nearly empty when it was last analysed (2 s for a thousand instead of 14 ms). A requested cancel wins.
-- Without edges ($15, $16) nothing is measured.
with ended as (
  delete from running r where r.run_id = any($4::uuid[]) and r.token = $2 and r.worker_id = $1 {alive}
  returning r.*, width_bucket(r.run_id, $4::uuid[]) as i),
kept as (
  insert into history (run_id, job_id, uid, class_id, state, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    parent, started_at, ended_at, worker_id, error_type, error, result, attempts, name, spec, payload)
  select run_id, job_id, uid, class_id, case when cancel_at is null then $3::smallint else 4 end, wanted, nominal, origin, trigger, job_version,  -- state: 4 cancelled
    token, coalesce(($7::smallint[])[i], failures), coalesce(($8::smallint[])[i], losses), parent, ($5::bigint[])[i], ($6::bigint[])[i], worker_id,
    ($9::text[])[i], ($10::text[])[i], ($11::bytea[])[i], coalesce(($12::bytea[])[i], attempts), name, spec, payload from ended),
counted as (
  insert into tally (uid, class_id, what, at, lag, took, n)
  select uid, class_id, case when cancel_at is null then $13 else 'cancelled' end, $14::bigint,
    width_bucket(($5::bigint[])[i] - greatest(due, free_at), $15::bigint[]), width_bucket(($6::bigint[])[i] - ($5::bigint[])[i], $16::bigint[]), count(*)
  from ended group by 1, 2, 3, 4, 5, 6)
select run_id, cancel_at is not null as cancelled from ended

-- name: settle_again
-- Retries later, unless a cancel was requested meanwhile. No lane holds the run: it keeps its positions,
-- but it waits for its rate again, unless it was only returned to the queue. Paired as in settle_final.
with back as (
  delete from running r where r.run_id = any($3::uuid[]) and r.token = $2 and r.worker_id = $1 and r.cancel_at is null {alive}
  returning r.*, width_bucket(r.run_id, $3::uuid[]) as i)
insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses, held,
  lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, tried_at, free_at)
select run_id, job_id, uid, class_id, ($4::bigint[])[i], wanted, nominal, origin, trigger, job_version, token, ($5::smallint[])[i],
  ($6::smallint[])[i], ($8::smallint[])[i] | case when meter is null then 0 else $9::smallint end, lane, gate, meter, updated_at, parent, name, ($7::bytea[])[i], checkpoint, spec, payload, ($10::bigint[])[i], ($10::bigint[])[i] from back
returning run_id, meter, held, due

-- name: orphans
-- By anti-join, so that it also finds the runs that a caller which died half-way left.
select run_id, job_id from running r where not exists (select from workers w where w.worker_id = r.worker_id)
order by run_id limit $1

-- name: job_statuses
select job_id, status from jobs where job_id = any($1::uuid[]) order by job_id for share

-- name: take_orphans
-- Skips runs that another transaction is claiming, settling or recovering at this moment.
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at, worker_id
from running r where run_id = any($1::uuid[]) and not exists (select from workers w where w.worker_id = r.worker_id)
order by run_id for update of r skip locked

-- name: end_waiting
-- Waits for a claim in flight, so that the answer is the truth. A run to expire (5) must still have to: since it was read, an
-- edit may have put another run in its place, with the same id.
with gone as (delete from waiting where run_id = any($1::uuid[]) and ($3 <> 5 or (expires_at < $2 and token = 0)) returning *),
kept as (
  insert into history (run_id, job_id, uid, class_id, state, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    parent, ended_at, attempts, name, spec, payload)
  select run_id, job_id, uid, class_id, $3, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    parent, $2, attempts, name, spec, payload from gone)
select run_id, uid, class_id, lane, gate from gone
