update runs set held = held & ~?1, free_at = iif(free_at = -?3, free_at, ?3) where run_id = ?2 returning meter, held, due
