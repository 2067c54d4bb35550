delete from key_sessions where session_hash in (
  select session_hash from key_sessions where expires_at < ?1 order by expires_at limit ?2)
