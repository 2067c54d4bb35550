-- One at a time whose turn has come; whether its key still counts is read with it.
with taken as (
  update bulks set turn = turn + 1, free_at = $1 + $2 where bulk_id = (
    select bulk_id from bulks where ended_at is null and free_at <= $1 and bulk_id <> all($3::uuid[])
    order by free_at, bulk_id limit 1 for update skip locked)
  returning bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why)
select t.*, exists (
  select from keys k where k.key_id = t.key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > $1)) as allowed
from taken t
