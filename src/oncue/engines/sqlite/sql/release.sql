update runs set held = held & ~4, free_at = ?2 where run_id = ?1 returning meter, held, due  -- held: 4 paused
