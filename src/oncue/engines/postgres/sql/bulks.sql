-- name: lock_user
-- See lock.sql.
select pg_advisory_xact_lock($1::int # case current_schema() when 'public' then 0 else hashtext(current_schema()) end, $2::int)

-- name: add_bulk
insert into bulks (bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, free_at)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $5
where (select count(*) from (select from bulks where uid = $2 and ended_at is null limit $10) open) < $10
on conflict do nothing

-- name: find_bulk
select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where bulk_id = $1

-- name: list_bulks
select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where bulk_id < $1::uuid order by bulk_id desc limit $2

-- name: list_bulks_of_user
-- Ordered by the whole of the user's index, as in list_live.
select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where (uid, bulk_id) < ($3::int, $1::uuid) and uid >= $3
order by uid desc, bulk_id desc limit $2

-- name: take_bulk
-- One at a time whose turn has come; whether its key still counts is read with it.
with taken as (
  update bulks set turn = turn + 1, free_at = $1 + $2 where bulk_id = (
    select bulk_id from bulks where ended_at is null and free_at <= $1 and bulk_id <> all($3::uuid[])
    order by free_at, bulk_id limit 1 for update skip locked)
  returning bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why)
select t.*, exists (
  select from keys k where k.key_id = t.key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > $1)) as allowed
from taken t

-- name: advance_bulk
update bulks set progress = $3, free_at = $4, state = $5, ended_at = $6, why = $7
where bulk_id = $1 and turn = $2 and ended_at is null returning 1

-- name: record_bulk
update bulks set progress = $3 where bulk_id = $1 and turn = $2 and state = $4 returning 1

-- name: stop_bulk
update bulks set state = $3, ended_at = $4 where bulk_id = $1 and ($2::int is null or uid = $2) and ended_at is null returning 1
