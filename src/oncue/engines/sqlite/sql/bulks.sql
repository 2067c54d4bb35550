-- name: add_bulk
insert into bulks (bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, free_at)
select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?5
where (select count(*) from (select 1 from bulks where uid = ?2 and ended_at is null limit ?10)) < ?10
on conflict do nothing

-- name: find_bulk
select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where bulk_id = ?

-- name: list_bulks
select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where {who}bulk_id < :last order by bulk_id desc limit :limit

-- name: free_bulks
select b.bulk_id, b.uid, b.key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why, exists (
  select 1 from keys k where k.key_id = b.key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)) as allowed
from bulks b where ended_at is null and free_at <= :now order by free_at, bulk_id limit :limit

-- name: advance_bulk
update bulks set progress = ?3, free_at = ?4, state = ?5, ended_at = ?6, why = ?7
where bulk_id = ?1 and turn = ?2 and ended_at is null returning 1

-- name: record_bulk
update bulks set progress = ?3 where bulk_id = ?1 and turn = ?2 and state = ?4 returning 1

-- name: stop_bulk
update bulks set state = ?3, ended_at = ?4 where bulk_id = ?1 and (?2 is null or uid = ?2) and ended_at is null returning 1
