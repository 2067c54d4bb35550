update runs set held = held & ~4 where run_id = ? returning meter, held, due  -- held: 4 paused
