-- A repeat of the same key changes nothing.
insert into keys (key_id, key_hash, uid, role, created_at, expires_at, revoked_at, note)
values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing
