update key_sessions set expires_at = $2 where session_hash = $1 and expires_at < $2
