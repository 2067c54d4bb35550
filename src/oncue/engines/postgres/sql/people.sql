-- name: find_key
select k.*, u.user_id from keys k join users u using (uid) where k.key_hash = $1

-- name: list_keys
select k.*, u.user_id from keys k join users u using (uid) order by k.created_at, k.key_id

-- name: lock_working_admin_keys
-- A transaction that revokes one of them waits for an earlier one, and then does not see the key that it revoked.
select key_id from keys where role = 'admin' and revoked_at is null and (expires_at is null or expires_at > $1)
order by key_id for update

-- name: revoke
update keys set revoked_at = coalesce(revoked_at, $2) where key_id = $1 returning key_id

-- name: users
-- `running` has no index by user, and is as small as the fleet: one walk for the whole page.
with page as (select uid, user_id, created_at from users where uid > $1::bigint order by uid limit $2),
busy as (select uid, count(*) as n from running where run_id = job_id and uid = any(array(select uid from page)) group by uid)
select p.uid, p.user_id, p.created_at,
  (select count(*) from (select revoked_at, expires_at from keys where uid = p.uid limit $4) k
    where revoked_at is null and (expires_at is null or expires_at > $3)) as keys,
  (select count(*) from (
    (select from jobs where uid = p.uid and status < 2)  -- status: 2 finished
    union all (select from waiting where uid = p.uid and run_id = job_id)
    limit $5) found) + coalesce((select n from busy b where b.uid = p.uid), 0) as open_jobs,
  (select payload from quotas where uid = p.uid) as payload_bound
from page p order by p.uid

-- name: add_key
insert into keys (key_id, key_hash, uid, role, created_at, expires_at, revoked_at, note)
values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing

-- name: note
-- A later change starts again with the first run, and what an earlier one requested is still to be done.
insert into unfinished as u (job_id, since, stops, drop_before, purge) values ($1, $2, $3, $4, $5)
on conflict (job_id) do update set since = greatest(u.since, excluded.since), stops = true, wanted = null, run_id = null,
  drop_before = greatest(u.drop_before, excluded.drop_before), purge = u.purge or excluded.purge

-- name: audit
select * from audit where (at, deed_id) < ($1, $2) and at >= $4 order by at desc, deed_id desc limit $3

-- name: audit_of_object
-- Ordered by the whole of the object's index, as in list_live.
select * from audit where (object_id, at, deed_id) < ($5::uuid, $1, $2) and object_id >= $5 and at >= $4
order by object_id desc, at desc, deed_id desc limit $3

-- name: audit_of_user
-- Ordered by the whole of the user's index, as in list_live.
select * from audit where (uid, at, deed_id) < ($5::int, $1, $2) and uid >= $5 and at >= $4
order by uid desc, at desc, deed_id desc limit $3

-- name: forgetting
select uid, user_id, asked_at, place from forgetting order by uid

-- name: erase_notices
delete from history where run_id = any(array(
  select run_id from history where uid = $1 and job_id = $2 order by uid, ended_at, run_id limit $3)) returning run_id

-- name: erase_objects
update objects set gone_at = 0 where key = any(array(select key from objects where uid = $1 and gone_at > 0 limit $2))

-- name: answer_repeat
-- With the body: a request that was refused at the same time may have left the key open.
with zero as (
  update repeats_0 set body_hash = $3, answer = $5 where uid = $1 and key_hash = $2 and made = $4 and answer is null)
update repeats_1 set body_hash = $3, answer = $5 where uid = $1 and key_hash = $2 and made = $4 and answer is null

-- name: open_repeat
with zero as (
  update repeats_0 set body_hash = '' where uid = $1 and key_hash = $2 and body_hash = $3 and made = $4 and answer is null)
update repeats_1 set body_hash = '' where uid = $1 and key_hash = $2 and body_hash = $3 and made = $4 and answer is null

-- name: give_back_repeat
-- Releases the idempotency key of a refused job: there is nothing to repeat.
with zero as (delete from repeats_0 where uid = $1 and key_hash = $2 and made = $3)
delete from repeats_1 where uid = $1 and key_hash = $2 and made = $3

-- name: reuse_repeat
-- Of several requests with a key that was left open one gets it; the others find it taken.
with zero as (
  update repeats_0 set body_hash = $3 where uid = $1 and key_hash = $2 and body_hash = '' and answer is null returning made),
one as (
  update repeats_1 set body_hash = $3 where uid = $1 and key_hash = $2 and body_hash = '' and answer is null returning made)
select made from zero union all select made from one

-- name: take_repeats
-- It uses both tables, so the generations do not switch meanwhile (idempotency.py says why). Each key is looked up by itself
-- ("not exists" becomes a join, which reads a whole index if the table was empty when it was last analysed).
with given as (select * from unnest($1::int[], $2::bytea[], $3::bytea[], $4::uuid[]) t(uid, key_hash, body_hash, made)),
zero as (
  insert into repeats_0 (uid, key_hash, body_hash, made)
  select * from given g where (select current from repeats_turn) = 0
    and (select made from repeats_1 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash
  on conflict (uid, key_hash) do nothing)
insert into repeats_1 (uid, key_hash, body_hash, made)
select * from given g where (select current from repeats_turn) = 1
  and (select made from repeats_0 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash
on conflict (uid, key_hash) do nothing

-- name: find_repeats
select r.* from unnest($1::int[], $2::bytea[]) t(uid, key_hash) cross join lateral (
  (select uid, key_hash, body_hash, made, answer from repeats_0 where uid = t.uid and key_hash = t.key_hash)
  union all (select uid, key_hash, body_hash, made, answer from repeats_1 where uid = t.uid and key_hash = t.key_hash)
  limit 1) r

-- name: add_quotas
-- In lock order. The user's usage is not known yet: no bound is too high.
insert into quotas (uid) select uid from unnest($1::int[]) t(uid) order by uid on conflict do nothing

-- name: lock_quotas
select uid, jobs, payload, runs from quotas where uid = any($1::int[]) order by uid for update

-- name: count_open_jobs
-- Counts up to a limit: a refused caller need not know how many there are beyond.
select count(*) from (
  (select from jobs where uid = $1 and status < 2)  -- status: 2 finished
  union all (select from waiting where uid = $1 and run_id = job_id)
  union all (select from running where uid = $1 and run_id = job_id)
  limit $2) found

-- name: sum_open_payloads
-- Of a reference, the size of its object counts.
select coalesce(sum(case when substr(payload, 1, 1) = '\x01' then (convert_from(substr(payload, 2), 'UTF8')::json ->> 'size')::bigint
  else octet_length(payload) end), 0)::bigint from (
  select payload from jobs where uid = $1 and status < 2  -- status: 2 finished
  union all select payload from waiting where uid = $1 and run_id = job_id
  union all select payload from running where uid = $1 and run_id = job_id) found

-- name: count_by_hand
-- Counts up to a limit, as in count_open_jobs.
select count(*) from (select from waiting where uid = $1 and origin is not null limit $2) found

-- name: put_quota
update quotas set jobs = $2, payload = $3, runs = $4 where uid = $1

-- name: open_session
-- A repeat of the same session changes nothing.
insert into key_sessions (session_hash, key_id, created_at, expires_at) values ($1, $2, $3, $4) on conflict do nothing

-- name: end_oldest_sessions
delete from key_sessions where session_hash = any(array(
  select session_hash from key_sessions where key_id = $1 order by expires_at desc, session_hash desc offset $2))

-- name: find_session
select k.*, u.user_id, s.created_at as opened_at, s.expires_at as ends_at
from key_sessions s join keys k using (key_id) join users u using (uid) where s.session_hash = $1

-- name: key_used
update keys set last_used_on = $2 where key_id = $1 and (last_used_on is null or last_used_on < $2)

-- name: extend_session
update key_sessions set expires_at = $2 where session_hash = $1 and expires_at < $2
