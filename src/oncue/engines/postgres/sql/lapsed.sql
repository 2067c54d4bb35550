-- Meters with starts that no worker has used in time. A run that was claimed meanwhile has another token.
-- Each run by its key: a join would read all due runs, if the table was nearly empty when it was last analysed.
select t.meter from unnest($1::bigint[], $2::bigint[]) t(meter, since) where exists (
  select from grants g where g.meter = t.meter and g.at >= t.since and g.at <= $3
    and (select w.token = g.token and w.held & 8 = 0 from waiting w where w.run_id = g.run_id))  -- held: 8 rate
