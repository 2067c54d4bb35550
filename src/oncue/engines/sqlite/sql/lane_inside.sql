-- The runs that a lane has admitted. Pinned ones, running or between two attempts, keep their position whatever is added.
select l.value, r.run_id, r.wanted, r.gate,
  r.failures + r.losses > 0 or exists (select 1 from running x where x.run_id = r.run_id) as pinned
from carray(?1) l cross join runs r on r.lane = l.value and r.held & 5 in (0, 4)  -- held: 1 lane, 4 paused
