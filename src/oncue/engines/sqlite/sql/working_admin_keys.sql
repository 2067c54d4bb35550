select key_id from keys where role = 'admin' and revoked_at is null and (expires_at is null or expires_at > ?1)
