delete from key_sessions where session_hash = any(array(
  select session_hash from key_sessions where key_id = $1 order by expires_at desc, session_hash desc offset $2))
