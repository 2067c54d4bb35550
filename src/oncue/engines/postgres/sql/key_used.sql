update keys set last_used_on = $2 where key_id = $1 and (last_used_on is null or last_used_on < $2)
