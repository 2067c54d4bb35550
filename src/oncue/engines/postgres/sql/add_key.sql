insert into keys (key_id, key_hash, uid, role, created_at, expires_at, revoked_at, note)
values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing
