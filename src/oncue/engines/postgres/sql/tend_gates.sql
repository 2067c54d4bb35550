-- The gates of the runs that tending these lanes may admit, once $2 of the first have left, or send back.
select distinct m.gate from unnest($1::bigint[]) l(lane) cross join lateral (
  (select w.gate from waiting w where w.lane = l.lane and w.held & 1 = 1 and w.held & 4 = 0  -- held: 1 lane, 4 paused
   order by w.wanted, w.run_id limit $2)
  union all
  (select w.gate from waiting w where w.lane = l.lane and w.held & 1 = 0)) m  -- held: 1 lane
where m.gate is not null
