update runs set held = held & ~8, due = ?1 where run_id = ?2  -- held: 8 rate
