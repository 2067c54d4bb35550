-- name: add_user
insert into users (user_id, created_at) values (?, ?) on conflict do nothing

-- name: add_key
-- A repeat of the same key changes nothing.
insert into keys (key_id, key_hash, uid, role, created_at, expires_at, revoked_at, note)
values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing

-- name: find_key
select k.key_id, k.key_hash, k.uid, u.user_id, k.role, k.created_at, k.expires_at, k.revoked_at, k.note, k.last_used_on
from keys k join users u on u.uid = k.uid where k.key_hash = ?

-- name: keys
select k.key_id, k.key_hash, k.uid, u.user_id, k.role, k.created_at, k.expires_at, k.revoked_at, k.note, k.last_used_on
from keys k join users u on u.uid = k.uid order by k.created_at, k.key_id

-- name: working_admin_keys
select key_id from keys where role = 'admin' and revoked_at is null and (expires_at is null or expires_at > ?1)

-- name: revoke
update keys set revoked_at = coalesce(revoked_at, ?1) where key_id = ?2 returning key_id

-- name: users
-- Of the user's live runs only the first so many are read: a backlog of recurring jobs has no index that passes over it.
select u.uid, u.user_id, u.created_at,
  (select count(*) from (select revoked_at, expires_at from keys where uid = u.uid limit :keys)
    where revoked_at is null and (expires_at is null or expires_at > :now)) as keys,
  (select count(*) from (
    select 1 from jobs where uid = u.uid and status < 2  -- status: 2 finished
    union all select 1 from (select run_id, job_id from runs where uid = u.uid limit 5 * :jobs) where run_id = job_id
    limit :jobs)) as open_jobs,
  (select payload from quotas where uid = u.uid) as payload_bound
from users u where u.uid > :after order by u.uid limit :limit

-- name: audit_of_object
select at, deed_id, uid, key_id, action, object_id, detail, address from audit
where object_id = :object_id and (at, deed_id) < (:at, :deed_id) and at >= :since order by at desc, deed_id desc limit :limit

-- name: audit
select at, deed_id, uid, key_id, action, object_id, detail, address from audit
where (at, deed_id) < (:at, :deed_id) and at >= :since order by at desc, deed_id desc limit :limit

-- name: audit_of_user
select at, deed_id, uid, key_id, action, object_id, detail, address from audit
where uid = :uid and (at, deed_id) < (:at, :deed_id) and at >= :since order by at desc, deed_id desc limit :limit

-- name: note
-- A later change starts again with the first run, and what an earlier one requested is still to be done.
insert into unfinished (job_id, since, stops, drop_before, purge) values (?, ?, ?, ?, ?)
on conflict do update set since = max(since, excluded.since), stops = 1, run_id = null,
  drop_before = max(coalesce(drop_before, excluded.drop_before), coalesce(excluded.drop_before, drop_before)),
  purge = purge or excluded.purge

-- name: forgetting
select uid, user_id, asked_at, place from forgetting order by uid

-- name: erase_objects
update objects set gone_at = 0 where key in (select key from objects where uid = ?1 and gone_at > 0 limit ?2)

-- name: answer_repeat
-- With the body: a request that was refused at the same time may have left the key open.
update repeats_{generation} set body_hash = ?, answer = ? where uid = ? and key_hash = ? and made = ? and answer is null

-- name: open_repeat
update repeats_{generation} set body_hash = x'' where uid = ? and key_hash = ? and body_hash = ? and made = ? and answer is null

-- name: reuse_repeat
update repeats_{generation} set body_hash = ? where uid = ? and key_hash = ? and body_hash = x'' and answer is null

-- name: find_repeat
select body_hash, made, answer from repeats_0 where uid = ?1 and key_hash = ?2
union all select body_hash, made, answer from repeats_1 where uid = ?1 and key_hash = ?2

-- name: add_repeat
insert into repeats_{generation} (uid, key_hash, body_hash, made) values (?, ?, ?, ?) on conflict do nothing

-- name: put_quota
insert into quotas (uid, jobs, payload, runs) values (?, ?, ?, ?)
on conflict do update set jobs = excluded.jobs, payload = excluded.payload, runs = excluded.runs

-- name: count_open_jobs
-- Counts up to a limit: a refused caller need not know how many there are beyond.
select count(*) from (
  select 1 from jobs where uid = ?1 and status < 2  -- status: 2 finished
  union all select 1 from runs where uid = ?1 and run_id = job_id
  limit ?2)

-- name: sum_open_payloads
-- Of a reference, the size of its object counts.
select coalesce(sum(iif(substr(payload, 1, 1) = x'01', json_extract(cast(substr(payload, 2) as text), '$.size'), length(payload))), 0) from (
  select payload from jobs where uid = ?1 and status < 2  -- status: 2 finished
  union all select payload from runs where uid = ?1 and run_id = job_id)

-- name: count_by_hand
-- Counts up to a limit, as in count_open_jobs.
select count(*) from (
  select 1 from runs r where uid = ?1 and origin is not null and not exists (select 1 from running x where x.run_id = r.run_id) limit ?2)

-- name: open_session
-- A repeat of the same session changes nothing.
insert into key_sessions (session_hash, key_id, created_at, expires_at) values (?, ?, ?, ?) on conflict do nothing

-- name: end_oldest_sessions
delete from key_sessions where session_hash in (
  select session_hash from key_sessions where key_id = ?1 order by expires_at desc, session_hash desc limit -1 offset ?2)

-- name: find_session
select s.session_hash, s.key_id, s.created_at, s.expires_at,
  k.key_id, k.key_hash, k.uid, u.user_id, k.role, k.created_at, k.expires_at, k.revoked_at, k.note, k.last_used_on
from key_sessions s join keys k on k.key_id = s.key_id join users u on u.uid = k.uid where s.session_hash = ?

-- name: key_used
update keys set last_used_on = ?1 where key_id = ?2 and (last_used_on is null or last_used_on < ?1)

-- name: extend_session
update key_sessions set expires_at = ?1 where session_hash = ?2 and expires_at < ?1
