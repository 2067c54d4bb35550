-- name: there
select t.{key} from carray(?1) asked cross join {table} t on t.{key} = asked.value

-- name: contents
-- Jobs, runs and keys, with what tells one from another, and its state.
select 'jobs', job_id, version, status from jobs
union all select 'runs', run_id, token, 'open' from runs
union all select 'running', run_id, token, worker_id from running
union all select 'keys', key_id, role, revoked_at from keys

-- name: contents_of_piece
select 'runs', run_id, token, state from {piece}

-- name: probe
insert into probe (one, n) values (1, 1) on conflict do update set n = n + 1

-- name: place
-- With its place among live workers, each takes its share of a burst without talking to the others; and with that among those that
-- take the same classes and were not silent for half of their leases, its share of the sweeps. A draining worker takes none.
select count(*) filter (where w.worker_id < ?1), count(*),
  count(*) filter (where w.classes = me.classes and w.beat_at > me.beat_at - w.lease / 2 and w.worker_id < ?1),
  count(*) filter (where w.classes = me.classes and w.beat_at > me.beat_at - w.lease / 2)
from workers w cross join (select classes, beat_at from workers where worker_id = ?1) me
where not w.draining and w.drain_at is null or w.worker_id = ?1

-- name: inside
-- The run that each lane has admitted, and whether it has begun: active ones come last.
select l.value, r.job_id, r.run_id, r.wanted, r.nominal, r.trigger, x.run_id is not null or r.token > 0 or r.failures + r.losses > 0 as begun
from carray(?1) l cross join runs r on r.lane = l.value and r.held & 5 in (0, 4) left join running x on x.run_id = r.run_id  -- held: 1 lane, 4 paused
order by begun

-- name: other_tables
select name from sqlite_master where type in ('table', 'view') and substr(name, 1, 7) <> 'sqlite_' order by name

-- name: piece
-- One partition of history, in the order in which runs ended: their ids are anywhere. The row of a one-shot is also the finished job.
create table {piece} (
  run_id blob not null, job_id blob not null, uid integer not null, class_id integer not null, state integer not null,
  wanted integer not null, nominal integer, trigger integer not null, job_version integer not null, token integer not null,
  failures integer not null, losses integer not null, parent blob, started_at integer, ended_at integer not null, worker_id blob,
  error_type text, error text, result blob, attempts blob, name text, spec blob, payload blob);
create unique index {piece}_run on {piece} (run_id);
create index {piece}_user on {piece} (uid, ended_at, run_id);
create index {piece}_name on {piece} (uid, name, ended_at, run_id) where name is not null;
create index {piece}_job on {piece} (job_id, ended_at, run_id) where job_id <> run_id;

-- name: newest_end_of_each
-- When a run of each of these users ended last, before a position: by the index alone. Null: none did.
select u.value, (select ended_at from {piece} where uid = u.value and (ended_at, run_id) < (:at, :last) order by ended_at desc, run_id desc limit 1)
from json_each(:users) u
