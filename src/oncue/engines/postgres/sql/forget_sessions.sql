with gone as (
  delete from key_sessions where session_hash = any(array(
    select session_hash from key_sessions where expires_at < $1 order by expires_at limit $2)) returning 1)
select count(*) from gone
