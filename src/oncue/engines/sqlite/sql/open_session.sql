-- A repeat of the same session changes nothing.
insert into key_sessions (session_hash, key_id, created_at, expires_at) values (?, ?, ?, ?) on conflict do nothing
