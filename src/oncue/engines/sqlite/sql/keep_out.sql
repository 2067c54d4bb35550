-- Back in line for its lane, a run is back in line for its gate too.
update runs set held = held | ?1 | iif(gate is null, 0, 2) where run_id = ?2  -- held: 2 gate
