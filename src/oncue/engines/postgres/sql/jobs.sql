-- name: definitions
-- Definitions of recurring jobs, at the version their runs started with.
select t.job_id, t.version, d.spec, d.payload
from unnest($1::uuid[], $2::int[]) t(job_id, version) cross join lateral (
  select spec, payload from jobs j where j.job_id = t.job_id and j.version = t.version
  union all
  select spec, payload from job_versions v where v.job_id = t.job_id and v.version = t.version
  limit 1) d

-- name: keyed_jobs
-- Each key by its own index entry, and each job by its own: as lateral joins, or a plan may read all jobs.
select k.key, k.job_id as held_by, k.definition, j.*
from unnest($2::text[]) a(key)
  cross join lateral (select * from job_keys where uid = $1 and key = a.key limit 1) k
  left join lateral (select * from jobs where job_id = k.job_id limit 1) j on true

-- name: definition
-- The definition of a run: its own if it carries one, else its job's at the version it was planned under.
select spec, payload from waiting where run_id = $1 and spec is not null
union all select spec, payload from running where run_id = $1 and spec is not null
union all select spec, payload from history where run_id = $1 and spec is not null
union all select spec, payload from jobs where job_id = $2 and version = $3
union all select spec, payload from job_versions where job_id = $2 and version = $3
limit 1

-- name: put_stamp
-- Not below a higher stamp; a user has at most $6 sets.
insert into sets (uid, name, stamp, digest, applied_at)
select $1, $2, $3, $4, $5
where exists (select from sets where uid = $1 and name = $2)
  or (select count(*) from (select from sets where uid = $1 limit $6) there) < $6
on conflict (uid, name) do update set stamp = excluded.stamp, digest = excluded.digest, applied_at = excluded.applied_at
where sets.stamp <= excluded.stamp
returning stamp

-- name: hold_stamp
-- Nobody puts another stamp before this transaction has ended.
select from sets where uid = $1 and name = $2 and stamp = $3 and digest = $4 for share

-- name: key_holders
select k.uid, k.key, k.job_id
from unnest($1::int[], $2::text[]) a(uid, key)
  cross join lateral (select * from job_keys where uid = a.uid and key = a.key limit 1) k

-- name: not_ended
select i.job_id from unnest($1::uuid[]) i(job_id) cross join lateral (
  (select from jobs where job_id = i.job_id and status < 2)  -- status: 2 finished
  union all (select from waiting where run_id = i.job_id)
  union all (select from running where run_id = i.job_id and cancel_at is null)
  limit 1) found

-- name: noted
select since, drop_before, purge, wanted, run_id from unfinished where job_id = $1

-- name: lock_job
select uid, version, status from jobs where job_id = $1 for update

-- name: read_recurring
select j.*, a.next_at, a.floor, a.planned, a.rules from jobs j left join agenda a using (job_id) where j.job_id = $1

-- name: live_of_job
-- One statement, which sees every run in one place: with two, a run that is claimed or returned to the queue in between would
-- be in neither. Running runs without a cancel request come first.
(select run_id, true as running, cancel_at, null::bigint as lane, null::bigint as gate from running where run_id = $1)
union all
(select run_id, true, cancel_at, null, null from running where job_id = $1 and job_id <> run_id order by cancel_at nulls first limit $2)
union all
(select run_id, false, null, lane, gate from waiting where run_id = $1)
union all
(select run_id, false, null, lane, gate from waiting where job_id = $1 and job_id <> run_id order by wanted limit $2)

-- name: has_unstopped_runs
-- By one statement, as in live_of_job.
select exists (select from waiting where run_id = $1) or exists (select from running where run_id = $1 and cancel_at is null)
  or exists (select from waiting where job_id = $1 and job_id <> run_id)
  or exists (select from running where job_id = $1 and job_id <> run_id and cancel_at is null)

-- name: walk
-- All runs, held or not: the walk passes each once.
select run_id, wanted, nominal, origin, held, token, job_version from waiting
where job_id = $1 and job_id <> run_id and wanted >= $2 and (wanted > $2 or run_id > $3)
order by wanted, run_id limit $4

-- name: uncount
update agenda set planned = greatest(0, planned - $2) where job_id = $1

-- name: withdraw
delete from waiting where run_id = any($1::uuid[]) and uid + 0 = $2 and job_version <= $3 and failures + losses = 0 and (token = 0 or run_id = job_id) and origin is null
returning run_id, uid, class_id, token

-- name: hold
update waiting set held = held | $2::smallint where run_id = any($1::uuid[]) returning run_id, meter, held, due

-- name: release
update waiting set held = held & ~$2::smallint, free_at = $3 where run_id = any($1::uuid[]) returning run_id, meter, held, due

-- name: runs_of_job
-- All running runs and the first $2 waiting ones.
select run_id, wanted, nominal, origin, held, token, failures + losses as tries, false as running from waiting where run_id = $1
union all
(select run_id, wanted, nominal, origin, held, token, failures + losses, false from waiting where job_id = $1 and job_id <> run_id
 order by wanted limit $2)
union all
select run_id, wanted, nominal, origin, 0, token, 0, true from running where run_id = $1
union all
select run_id, wanted, nominal, origin, 0, token, 0, true from running where job_id = $1 and job_id <> run_id
order by wanted, run_id

-- name: existing_jobs
-- A job cannot have ended before it was created: older partitions of history are not read. Each job by its key: for all of
-- them at once the planner reads a whole index, if the table was empty when it was last analysed.
select i.job_id from unnest($1::uuid[]) i(job_id) cross join lateral (
  (select from waiting where run_id = i.job_id)
  union all (select from running where run_id = i.job_id)
  union all (select from jobs where job_id = i.job_id)
  union all (select from dead where run_id = i.job_id)
  union all (select from history where run_id = i.job_id and ended_at >= $2)
  limit 1) found

-- name: hold_keys
-- Takes each key for its job or finds its holder; either way the row is locked until the end of the transaction.
insert into job_keys (uid, key, job_id, definition) select * from unnest($1::int[], $2::text[], $3::uuid[], $4::bytea[])
on conflict (uid, key) do update set job_id = job_keys.job_id returning uid, key, job_id

-- name: take_key
update job_keys set job_id = $3, definition = $4 where uid = $1 and key = $2 and job_id <> $3

-- name: give_back_key
-- Releases the key of a refused job: the row was created for it, and no job had the key before.
delete from job_keys where uid = $1 and key = $2 and job_id = $3

-- name: read_one_shot
select * from one_shots where job_id = $1
union all
select run_id, uid, class_id, job_version, name, spec, payload, null, ended_at, state, 0, null, true from dead
where run_id = $1 and job_id = $1 and spec is not null
limit 1

-- name: keep_version
insert into job_versions (job_id, version, spec, payload, until)
select job_id, version, spec, payload, $2 from jobs where job_id = $1 on conflict do nothing

-- name: put_cursor
insert into agenda (job_id, uid, next_at, floor, planned, rules) values ($1, $2, $3, $4, $5, $6)
on conflict (job_id) do update set next_at = excluded.next_at, floor = greatest(agenda.floor, excluded.floor),
  planned = excluded.planned, rules = excluded.rules

-- name: put_job
insert into jobs (job_id, uid, version, status, class_id, name, spec, payload, created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (job_id) do update set version = excluded.version, status = excluded.status, class_id = excluded.class_id,
  name = excluded.name, spec = excluded.spec, payload = excluded.payload, updated_at = excluded.updated_at

-- name: redefine_key
update job_keys set definition = $4 where uid = $1 and key = $2 and job_id = $3 and definition is not null

-- name: leave_agenda
delete from agenda where job_id = $1 returning next_at, floor, planned, rules

-- name: end_job
update jobs set status = $2, updated_at = $3 where job_id = $1 and status < 2  -- status: 2 finished

-- name: purge_ledger
-- The oldest entries, and all of the same instant as the last of these.
delete from ledger where job_id = $1 and last_at <= coalesce(
  (select last_at from ledger where job_id = $1 order by last_at, entry_id offset $2 - 1 limit 1), 9223372036854775807)
returning entry_id

-- name: has_live_runs
select exists (select from waiting where run_id = $1) or exists (select from running where run_id = $1)
  or exists (select from waiting where job_id = $1 and job_id <> run_id) or exists (select from running where job_id = $1 and job_id <> run_id)

-- name: purge_history
delete from history where job_id = $1
  and run_id = any(array(select run_id from history where job_id = $1 and job_id <> run_id limit $2)) returning run_id

-- name: purge_dead
-- Dead letters whose history was dropped: no index has their job, only their user.
select run_id from dead where uid = $2 and job_id = $1 and job_id <> run_id limit $3
