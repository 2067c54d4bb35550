update runs set held = held & ~8, due = ?1, free_at = ?3 where run_id = ?2  -- held: 8 rate
