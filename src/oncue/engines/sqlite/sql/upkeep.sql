-- name: tended
update tended set at = min(?1, coalesce(at + ?2, ?1)) returning at

-- name: take_turn
-- A time further ahead than a step is a clock's that was set back.
insert into turns (name, next_at, position) values (?1, ?2 + ?3, x'')
on conflict (name) do update set next_at = excluded.next_at where turns.next_at <= ?2 or turns.next_at > ?2 + ?3
returning position

-- name: finish_turn
update turns set position = ?3 where name = ?1 and position = ?2 returning name

-- name: forget_api_keys
-- Keys that have not been accepted since then.
delete from keys where key_id in (select key_id from keys where revoked_at < ?1 or expires_at < ?1 limit ?2)

-- name: forget_sessions
delete from key_sessions where session_hash in (
  select session_hash from key_sessions where expires_at < ?1 order by expires_at limit ?2)

-- name: forget_archived
-- A row that came after its day was archived has a higher id: it stays, and is archived later.
delete from {table} where {key} in (
  select t.{key} from {table} t join archived a on a.table_name = '{table}'
  where t.at < ?1 and t.at < a.until_at and t.{key} <= a.last_id limit ?2)

-- name: forget
delete from {table} where ({key}) in (select {key} from {table} where at < ?1 limit ?2)

-- name: drop_errors
delete from errors where (uid, fingerprint) in (
  select uid, fingerprint from errors where last_seen < ? order by last_seen, uid, fingerprint limit ?) returning 1

-- name: drop_bulks
delete from bulks where bulk_id in (select bulk_id from bulks where ended_at < ? order by ended_at limit ?) returning 1

-- name: too_many_dead
-- For the next user after ?1 with dead letters: the newest letter beyond the limit.
select u.uid, d.ended_at, d.run_id from (select min(uid) as uid from dead where uid > ?1) u
left join dead d on d.run_id = (select run_id from dead where uid = u.uid order by ended_at desc, run_id desc limit 1 offset ?2)
where u.uid is not null

-- name: drop_dead
delete from dead where run_id in (select run_id from dead where ended_at < ?1 order by ended_at, run_id limit ?2) returning uid, class_id

-- name: thin_series
insert into series_hours (uid, class_id, what, at, bucket, n)
select uid, class_id, what, at - at % 3600000000, bucket, sum(n) from series where at < ? group by 1, 2, 3, 4, 5
on conflict do update set n = n + excluded.n

-- name: drop_dead_of_user
delete from dead where run_id in (
  select run_id from dead where uid = ?1 and (ended_at, run_id) <= (?2, ?3) order by ended_at, run_id limit ?4) returning uid, class_id

-- name: states
select p.run_id, p.state from carray(?1) asked cross join {piece} p on p.run_id = asked.value

-- name: forget_job
-- If the job has no waiting or running run and no dead letter.
delete from jobs where job_id = ?1 and status >= 2 and not exists (select 1 from runs where job_id = ?1 and job_id <> run_id)  -- status: 2 finished
  and not exists (select 1 from dead d where d.uid = jobs.uid and d.job_id = ?1)

-- name: forget_worker_names
delete from worker_names where worker_id in (
  select worker_id from worker_names where seen_at < ?1 and worker_id not in (select worker_id from workers) limit ?2)

-- name: forget_versions
delete from job_versions where job_id = ?1 and version = ?2 and until < ?3 and not exists (
  select 1 from runs r where r.job_id = job_versions.job_id and r.job_id <> r.run_id and r.job_version = job_versions.version)

-- name: forget_lanes
delete from lanes where lane in (select value from carray(?1)) and not exists (select 1 from runs r where r.gate = lanes.lane)
