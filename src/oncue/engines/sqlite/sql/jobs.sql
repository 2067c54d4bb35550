-- name: definition
select spec, payload from jobs where job_id = ?1 and version = ?2
union all select spec, payload from job_versions where job_id = ?1 and version = ?2
limit 1

-- name: key_holder
select job_id, definition from job_keys where uid = ? and key = ?

-- name: put_stamp
-- Not below a higher stamp; a user has at most ?6 sets.
insert into sets (uid, name, stamp, digest, applied_at)
select ?1, ?2, ?3, ?4, ?5
where exists (select 1 from sets where uid = ?1 and name = ?2)
  or (select count(*) from (select 1 from sets where uid = ?1 limit ?6)) < ?6
on conflict (uid, name) do update set stamp = excluded.stamp, digest = excluded.digest, applied_at = excluded.applied_at
where sets.stamp <= excluded.stamp
returning stamp

-- name: has_stamp
select 1 from sets where uid = ? and name = ? and stamp = ? and digest = ?

-- name: read_recurring
select j.*, a.next_at, a.floor, a.planned, a.rules from recurring_jobs j join agenda a on a.job_id = j.job_id where j.job_id = ?1

-- name: has_not_ended
select job_id from jobs where job_id = ?1 and status < 2  -- status: 2 finished
union all select r.run_id from runs r left join running x on x.run_id = r.run_id where r.run_id = ?1 and x.cancel_at is null

-- name: noted
select since, drop_before, purge, run_id from unfinished where job_id = ?

-- name: running_of_job
-- Few runs are running at a time, and no index has their jobs.
select x.run_id from running x cross join runs r on r.run_id = x.run_id where r.job_id = ?1

-- name: waiting_of_job
select run_id from runs r where run_id = ?1 and not exists (select 1 from running x where x.run_id = r.run_id)
union all
select * from (
  select run_id from runs r where job_id = ?1 and job_id <> run_id and not exists (select 1 from running x where x.run_id = r.run_id)
  order by run_id limit ?2)

-- name: walk
-- All runs, held or not: the walk passes each once.
select run_id, wanted, nominal, origin, held, token, job_version from runs r
where job_id = ?1 and job_id <> run_id and run_id > ?2 and not exists (select 1 from running x where x.run_id = r.run_id)
order by run_id limit ?3

-- name: uncount
update agenda set planned = max(0, planned - ?) where job_id = ?

-- name: tokens
select r.run_id, r.token from carray(?1) asked cross join runs r on r.run_id = asked.value

-- name: hold
-- A paused run gives up its positions, unless it is between two attempts.
update runs set held = held | 4 | iif(failures + losses > 0, 0, iif(lane is null, 0, 1) | iif(gate is null, 0, 2)) where run_id = ?  -- held: 1 lane, 2 gate, 4 paused

-- name: release
update runs set held = held & ~4, free_at = ?2 where run_id = ?1 returning meter, held, due  -- held: 4 paused

-- name: end_job
-- Only an active or paused job: a finished job stays finished.
update jobs set status = ?1, updated_at = ?2 where job_id = ?3 and status < 2  -- status: 2 finished

-- name: add_tag
insert into job_tags (uid, tag, job_id) values (?, ?, ?) on conflict do nothing

-- name: take_key
insert into job_keys (uid, key, job_id, definition) values (?, ?, ?, ?)
on conflict (uid, key) do update set job_id = excluded.job_id, definition = excluded.definition

-- name: keep_version
insert into job_versions (job_id, version, until, spec, payload) select job_id, version, ?1, spec, payload from jobs where job_id = ?2
on conflict do nothing

-- name: put_cursor
-- The floor only rises.
insert into agenda (job_id, uid, next_at, floor, planned, rules) values (?, ?, ?, ?, ?, ?)
on conflict do update set next_at = excluded.next_at, floor = max(floor, excluded.floor), planned = excluded.planned, rules = excluded.rules

-- name: guard_job
select j.uid, j.version, j.status, a.floor from jobs j left join agenda a on a.job_id = j.job_id where j.job_id = ?1

-- name: guard_run
select job_version, iif(run_id = job_id, failures + losses, token) from runs r
where run_id = ?1 and uid = ?2 and not exists (select 1 from running x where x.run_id = r.run_id)

-- name: put_job
insert into jobs (job_id, uid, version, status, class_id, name, created_at, updated_at, spec, payload) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set version = excluded.version, status = excluded.status, class_id = excluded.class_id, name = excluded.name,
  updated_at = excluded.updated_at, spec = excluded.spec, payload = excluded.payload

-- name: redefine_key
update job_keys set definition = ? where uid = ? and key = ? and job_id = ? and definition is not null

-- name: ended_runs_of_job
select run_id from {table} where {whose}job_id = ?1 and job_id <> run_id limit ?2

-- name: runs_of_job
-- The first ?2 runs that have not ended. Only the columns that are needed: whole rows would be copied twice.
select r.run_id, r.wanted, r.nominal, r.origin, r.held, r.token, r.tries, exists (select 1 from running x where x.run_id = r.run_id) from (
  select run_id, wanted, nominal, origin, held, token, failures + losses as tries from runs where run_id = ?1 and job_id = ?1
  union all
  select * from (
    select run_id, wanted, nominal, origin, held, token, failures + losses from runs
    where job_id = ?1 and job_id <> run_id order by run_id limit ?2)) r
order by r.wanted, r.run_id

-- name: purge_ledger
delete from ledger where entry_id in (select entry_id from ledger where job_id = ? limit ?)
