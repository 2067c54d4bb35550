update runs set held = held & ~?1 where run_id = ?2
