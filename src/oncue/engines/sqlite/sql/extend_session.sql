update key_sessions set expires_at = ?1 where session_hash = ?2 and expires_at < ?1
