-- name: roll_up
with taken as (
  delete from tally where ctid = any(array(select ctid from tally limit $1 for update skip locked)) returning *),
summed as (
  insert into counters (uid, class_id, what, n) select uid, class_id, what, sum(n) from taken group by 1, 2, 3 order by 1, 2, 3
  on conflict (uid, class_id, what) do update set n = counters.n + excluded.n),
measured as (
  select t.class_id, m.what, t.at, m.bucket, t.n
  from taken t cross join lateral (values (t.what, 0::smallint), ('lag', t.lag), ('run', t.took)) m (what, bucket)
  where t.at is not null and m.bucket is not null),
drawn as (
  insert into series (uid, class_id, what, at, bucket, n)
  select 0, coalesce(class_id, 0), what, at, bucket, sum(n) from measured
  group by grouping sets ((class_id, what, at, bucket), (what, at, bucket)) order by 1, 2, 3, 4, 5
  on conflict (uid, class_id, what, at, bucket) do update set n = series.n + excluded.n),
drawn_by_user as (
  insert into series_hours (uid, class_id, what, at, bucket, n)
  select uid, 0, what, at - at % 3600000000, 0, sum(n) from taken where at is not null group by 1, 3, 4 order by 1, 3, 4
  on conflict (uid, class_id, what, at, bucket) do update set n = series_hours.n + excluded.n)
select count(*) as n from taken

-- name: tended
update tended set at = least($1::bigint, coalesce(at + $2::bigint, $1::bigint)) returning at

-- name: take_turn
-- One conditional write, so that of many callers one gets a row. A time further ahead than a step is a clock's that was set back.
insert into turns as t (name, next_at, position) values ($1, $2::bigint + $3::bigint, '')
on conflict (name) do update set next_at = excluded.next_at where t.next_at <= $2 or t.next_at > $2 + $3
returning position

-- name: finish_turn
update turns set position = $3 where name = $1 and position = $2 returning name

-- name: forget_api_keys
-- Keys that have not been accepted since then.
with gone as (
  delete from keys where key_id = any(array(select key_id from keys where revoked_at < $1 or expires_at < $1 limit $2)) returning 1)
select count(*) from gone

-- name: forget_sessions
with gone as (
  delete from key_sessions where session_hash = any(array(
    select session_hash from key_sessions where expires_at < $1 order by expires_at limit $2)) returning 1)
select count(*) from gone

-- name: forget_worker_names
-- Workers that are registered stay, also those that an older process registered.
with alive as (
  insert into worker_names (worker_id, name, seen_at) select worker_id, name, $1::bigint from workers order by worker_id
  on conflict (worker_id) do update set seen_at = excluded.seen_at)
delete from worker_names where worker_id = any(array(
  select worker_id from worker_names n where seen_at < $2 and not exists (select from workers w where w.worker_id = n.worker_id) limit $3))

-- name: drop_errors
delete from errors where (uid, fingerprint) in (
  select uid, fingerprint from errors where last_seen < $1 order by last_seen, uid, fingerprint limit $2) returning 1

-- name: drop_bulks
delete from bulks where bulk_id in (select bulk_id from bulks where ended_at < $1 order by ended_at limit $2) returning 1

-- name: too_many_dead
-- For the next $2 users after $1 with dead letters: the newest letter beyond the limit. Each user is found by the index.
with recursive bite(uid, n) as (
  (select uid, 1 from dead where uid > $1 order by uid limit 1)
  union all
  select (select d.uid from dead d where d.uid > s.uid order by d.uid limit 1), s.n + 1 from bite s where s.uid is not null and s.n < $2)
select s.uid, d.ended_at, d.run_id from bite s
left join lateral (
  select ended_at, run_id from dead d where d.uid = any(array[s.uid]) order by d.uid desc, ended_at desc, run_id desc offset $3 limit 1) d on true
where s.uid is not null order by s.uid

-- name: history_to_drop
-- $2: only what is in the archive.
select max(until_at) from pieces where parent = 'history' and until_at <= $1 and (archived_rows is not null or not $2::boolean) having count(*) > 0

-- name: forget_keys
-- Stable keys after ($1, $2). Runs before the history that ends before $5 is dropped: putting a cancelled job again creates it
-- again and needs no key; a job that was put and has finished must not run twice, as long as it is remembered at all ($6).
-- Each by its key: as a join this would read all of history.
with bite as (select uid, key, job_id, definition from job_keys where (uid, key) > ($1, $2) order by uid, key limit $3),
gone as (
  delete from job_keys k using bite s where k.uid = s.uid and k.key = s.key and k.job_id = s.job_id and s.job_id < $4
    and (coalesce((select state = 4 or s.definition is null from history where run_id = s.job_id and ended_at < $5 limit 1), false)  -- state: 4 cancelled
      or (s.definition is null or s.job_id < $6)
        and (select job_id from jobs where job_id = s.job_id) is null
        and (select run_id from waiting where run_id = s.job_id) is null
        and (select run_id from running where run_id = s.job_id) is null
        and (select run_id from dead where run_id = s.job_id) is null
        and (select run_id from history where run_id = s.job_id limit 1) is null))
select uid, key from bite order by uid desc, key desc limit 1

-- name: forget_enqueue_keys
-- Keys of jobs with smaller ids than $1, which are older, except of those that are still in the outbox.
with gone as (
  delete from enqueue_keys where job_id = any(array(
    select job_id from enqueue_keys k where job_id < $1 and (select job_id from outbox where job_id = k.job_id) is null
    order by job_id limit $2)) returning 1)
select count(*) from gone

-- name: some_jobs
select job_id, uid, status, updated_at from jobs where job_id > $1 order by job_id limit $2

-- name: forget_versions
-- Versions after ($1, $2). Not while a run that was planned under one waits or runs: it could not be claimed any more.
with bite as (select job_id, version, until from job_versions where (job_id, version) > ($1, $2) order by job_id, version limit $3),
gone as (
  delete from job_versions v using bite s where v.job_id = s.job_id and v.version = s.version and s.until < $4
    and (select run_id from waiting where job_id = s.job_id and job_id <> run_id and job_version = s.version limit 1) is null
    and (select run_id from running where job_id = s.job_id and job_id <> run_id and job_version = s.version limit 1) is null)
select job_id, version from bite order by job_id desc, version desc limit 1

-- name: forget_tags
-- Tags after ($1, $2, $3). Each by its key: as joins these would read all of history.
with bite as (select uid, tag, job_id from job_tags where (uid, tag, job_id) > ($1, $2, $3) order by uid, tag, job_id limit $4),
gone as (
  delete from job_tags t using bite s where t.uid = s.uid and t.tag = s.tag and t.job_id = s.job_id and s.job_id < $5
    and (select job_id from jobs where job_id = s.job_id) is null
    and (select run_id from waiting where run_id = s.job_id) is null
    and (select run_id from running where run_id = s.job_id) is null
    and (select run_id from dead where run_id = s.job_id) is null
    and (select run_id from history where run_id = s.job_id limit 1) is null)
select uid, tag, job_id from bite order by uid desc, tag desc, job_id desc limit 1

-- name: forget_quotas
-- Their users' usage is unknown again, as at first. Locked in order, as by callers that create jobs of several users.
with bite as (
  update quotas q set jobs = default, payload = default, runs = default
  from (select uid from quotas where uid > $1 order by uid limit $2 for update) held where q.uid = held.uid returning q.uid)
select max(uid) as uid from bite

-- name: thin_series
with old as (
  delete from series where ctid = any(array(select ctid from series where at < $1 order by at limit $2 for update skip locked)) returning *),
kept as (
  insert into series_hours (uid, class_id, what, at, bucket, n)
  select uid, class_id, what, at - at % 3600000000, bucket, sum(n) from old group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
  on conflict (uid, class_id, what, at, bucket) do update set n = series_hours.n + excluded.n)
select count(*) from old

-- name: drop_series
with old as (
  delete from series_hours where ctid = any(array(select ctid from series_hours where at < $1 order by at limit $2 for update skip locked)) returning 1)
select count(*) from old

-- name: drop_dead
with gone as (
  delete from dead where run_id = any(array(select run_id from dead where ended_at < $1 order by ended_at, run_id limit $2)) returning uid, class_id),
counted as (insert into tally (uid, class_id, what, n) select uid, class_id, 'discarded', count(*) from gone group by uid, class_id)
select uid, count(*) as n from gone group by uid order by uid

-- name: drop_dead_of_user
with gone as (
  delete from dead where run_id = any(array(
    select run_id from dead where uid = any(array[$1::int]) and (ended_at, run_id) <= ($2, $3) order by uid, ended_at, run_id limit $4))
  returning run_id, uid, class_id),
counted as (insert into tally (uid, class_id, what, n) select uid, class_id, 'discarded', count(*) from gone group by uid, class_id)
select run_id from gone

-- name: forget_jobs
-- Jobs without any run, live, ended or dead. By their key: `status + 0` is in no index.
delete from jobs j where job_id = any($1::uuid[]) and status + 0 >= 2 and updated_at < $2  -- status: 2 finished
  and (select run_id from waiting where job_id = j.job_id and job_id <> run_id limit 1) is null
  and (select run_id from running where job_id = j.job_id and job_id <> run_id limit 1) is null
  and (select run_id from history where job_id = j.job_id and job_id <> run_id limit 1) is null
  and job_id <> all(array(select job_id from dead where uid = any($3::int[])))
returning job_id, uid, status, spec, payload

-- name: empty_lanes
-- Lanes after $1, each with whether it has a member.
select l.lane, not exists (select from waiting w where w.lane = l.lane and w.held & 1 = 0)  -- held: 1 lane
  and not exists (select from waiting w where w.lane = l.lane and w.held & 1 = 1)  -- held: 1 lane
  and not exists (select from waiting w where w.gate = l.lane and w.held & 2 = 0)  -- held: 2 gate
  and not exists (select from waiting w where w.gate = l.lane and w.held & 2 = 2)  -- held: 2 gate
  and not exists (select from running r where r.lane = l.lane) and not exists (select from running r where r.gate = l.lane) as empty
from (select lane from lanes where lane > $1 order by lane limit $2) l order by l.lane

-- name: lock_empty_lanes
select lane from lanes where lane = any($1::bigint[]) order by lane for update skip locked

-- name: forget_empty_lanes
delete from lanes l where lane = any($1::bigint[])
  and not exists (select from waiting w where w.lane = l.lane and w.held & 1 = 0)  -- held: 1 lane
  and not exists (select from waiting w where w.lane = l.lane and w.held & 1 = 1)  -- held: 1 lane
  and not exists (select from waiting w where w.gate = l.lane and w.held & 2 = 0)  -- held: 2 gate
  and not exists (select from waiting w where w.gate = l.lane and w.held & 2 = 2)  -- held: 2 gate
  and not exists (select from running r where r.lane = l.lane) and not exists (select from running r where r.gate = l.lane)
