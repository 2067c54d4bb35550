-- A run waits for its lane first, then for its gate: whether that one has admitted anybody, by one probe each.
select w.run_id, w.job_id, w.wanted, w.held & 1 > 0 as by_lane,  -- held: 1 lane
  case when w.held & 1 > 0 then  -- held: 1 lane
    (select run_id from running r where r.lane = w.lane limit 1) is not null
    or (select run_id from waiting p where p.lane = w.lane and p.held & 1 = 0 limit 1) is not null  -- held: 1 lane
  else
    (select run_id from running r where r.gate = w.gate limit 1) is not null
    or (select run_id from waiting p where p.gate = w.gate and p.held & 2 = 0 limit 1) is not null  -- held: 2 gate
  end as admitted
from waiting w where w.held & 3 > 0 and w.held & 4 = 0 and w.wanted <= $1  -- held: 1 lane, 2 gate, 4 paused
order by w.wanted, w.run_id limit $2
