update keys set last_used_on = ?1 where key_id = ?2 and (last_used_on is null or last_used_on < ?1)
