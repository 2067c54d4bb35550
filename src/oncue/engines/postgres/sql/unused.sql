-- Starts that no worker has used yet, with their runs locked; runs that others have locked at this moment are being used.
select g.meter, g.run_id, g.token, g.due from unnest($1::bigint[], $2::bigint[]) t(meter, since)
  cross join lateral (select * from grants g where g.meter = t.meter and g.at >= t.since) g
  cross join lateral (select from waiting w where w.run_id = g.run_id and w.token = g.token and w.held & 8 = 0 for update skip locked) w  -- held: 8 rate
