delete from lanes l where not exists (select from waiting w where w.lane = l.lane or w.gate = l.lane)
  and not exists (select from running r where r.lane = l.lane or r.gate = l.lane)
