update runs set held = held & ~?1 where run_id = ?2 returning meter, held, due
