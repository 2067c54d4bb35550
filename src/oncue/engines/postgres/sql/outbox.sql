-- name: outbox_peek
select 1 from outbox where retry_at <= $1 order by retry_at, seq limit 1

-- name: outbox_list
-- $3: only refused ones, or only others; null: all.
select seq, job_id, uid, role, db_role, task, payload, options, key_hash, body_hash, require_task, at, since, retry_at, why,
  coalesce((select user_id from users u where u.uid = o.uid), '') as user_id
from outbox o where seq > $1 and ($3::boolean is null or (retry_at >= 4611686018427387904) = $3) order by seq limit $2

-- name: outbox_discard
-- With their keys: nothing is left that a repeat could return.
with gone as (delete from outbox where job_id = any($1::uuid[]) returning job_id),
freed as (delete from enqueue_keys where job_id = any(array(select job_id from gone)))
select job_id from gone

-- name: outbox_state
select
  (select count(*) from (select from outbox where retry_at < 4611686018427387904 limit $1) w)::int,
  (select count(*) from (select from outbox where retry_at >= 4611686018427387904 limit $1) r)::int,
  (select min(at) from (select at from outbox where retry_at < 4611686018427387904 order by seq limit $1) o)

-- name: outbox_grant
insert into db_grants (db_role, uid, role, granted_at) values ($1, $2, $3, $4)
on conflict (db_role) do update set uid = $2, role = $3, granted_at = $4

-- name: outbox_grants
select db_role::text, coalesce((select user_id from users u where u.uid = g.uid), ''), role, granted_at from db_grants g order by db_role

-- name: outbox_take
-- The next rows after a place ($4, $5), whose payloads have together at most so many bytes ($3), but for the last one. By their
-- places, which is one scan of the index and no other; rows that another process has in hand are skipped.
delete from outbox where ctid = any(array(
  select place from (
    select place, sum(size) over (order by retry_at, seq rows unbounded preceding) - size as bytes_before from (
      select ctid as place, retry_at, seq, pg_column_size(payload) as size from outbox
      where retry_at <= $1 and (retry_at, seq) > ($4::bigint, $5::bigint)
      order by retry_at, seq limit $2 for update skip locked) next) sized
  where bytes_before < $3::bigint))
returning seq, job_id, uid, role, db_role, task, payload, options, key_hash, body_hash, require_task, at, since, retry_at, why,
  pg_column_size(payload) as bytes

-- name: outbox_users
select uid, user_id from users where uid = any($1::int[])

-- name: outbox_keep
insert into outbox (seq, job_id, uid, role, db_role, task, payload, options, key_hash, body_hash, require_task, at, since, retry_at, why)
overriding system value values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
