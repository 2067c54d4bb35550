update keys set revoked_at = coalesce(revoked_at, $2) where key_id = $1 returning key_id
