select run_id, expires_at from runs r
where expires_at < ?1 and token = 0 and not exists (select 1 from running x where x.run_id = r.run_id) order by expires_at limit 1
