update keys set revoked_at = coalesce(revoked_at, ?1) where key_id = ?2 returning key_id
