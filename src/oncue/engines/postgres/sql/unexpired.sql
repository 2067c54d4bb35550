select run_id, expires_at from waiting where expires_at < $1 and token = 0 order by expires_at limit 1
