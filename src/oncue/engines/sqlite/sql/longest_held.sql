-- A run waits for its lane first, then for its gate: whether that one has admitted anybody, by one probe each.
select w.run_id, w.job_id, w.wanted, w.held & 1 > 0,  -- held: 1 lane
  iif(w.held & 1 > 0,  -- held: 1 lane
    exists (select 1 from runs p where p.lane = w.lane and p.held & 5 in (0, 4)),  -- held: 1 lane, 4 paused
    exists (select 1 from runs p where p.gate = w.gate and p.held & 7 in (0, 4)))  -- held: 1 lane, 2 gate, 4 paused
from runs w where w.held & 3 > 0 and w.held & 4 = 0 and w.wanted <= ?1  -- held: 1 lane, 2 gate, 4 paused
order by w.wanted, w.run_id limit ?2
