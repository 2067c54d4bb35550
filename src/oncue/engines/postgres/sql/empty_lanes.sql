-- Lanes after $1, each with whether it has a member.
select l.lane, not exists (select from waiting w where w.lane = l.lane and w.held & 1 = 0)  -- held: 1 lane
  and not exists (select from waiting w where w.lane = l.lane and w.held & 1 = 1)  -- held: 1 lane
  and not exists (select from waiting w where w.gate = l.lane and w.held & 2 = 0)  -- held: 2 gate
  and not exists (select from waiting w where w.gate = l.lane and w.held & 2 = 2)  -- held: 2 gate
  and not exists (select from running r where r.lane = l.lane) and not exists (select from running r where r.gate = l.lane) as empty
from (select lane from lanes where lane > $1 order by lane limit $2) l order by l.lane
