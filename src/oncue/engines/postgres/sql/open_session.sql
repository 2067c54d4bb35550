-- A repeat of the same session changes nothing.
insert into key_sessions (session_hash, key_id, created_at, expires_at) values ($1, $2, $3, $4) on conflict do nothing
