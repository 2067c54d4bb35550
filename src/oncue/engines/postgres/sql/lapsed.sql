-- Meters with starts that nobody has made use of in time. Whoever was claimed meanwhile has another token.
-- Each run by its key: a join would read all that is due, whenever the planner last looked at a quiet moment.
select t.meter from unnest($1::bigint[], $2::bigint[]) t(meter, since) where exists (
  select from grants g where g.meter = t.meter and g.at >= t.since and g.at <= $3
    and (select w.token = g.token and w.held & 8 = 0 from waiting w where w.run_id = g.run_id))  -- held: 8 rate
