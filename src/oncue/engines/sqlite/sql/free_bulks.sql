select b.bulk_id, b.uid, b.key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why, exists (
  select 1 from keys k where k.key_id = b.key_id and k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)) as allowed
from bulks b where ended_at is null and free_at <= :now order by free_at, bulk_id limit :limit
