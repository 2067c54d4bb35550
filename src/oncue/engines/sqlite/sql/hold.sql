-- A paused run gives up its positions, unless it is between two attempts.
update runs set held = held | 4 | iif(failures + losses > 0, 0, iif(lane is null, 0, 1) | iif(gate is null, 0, 2)) where run_id = ?  -- held: 1 lane, 2 gate, 4 paused
