-- Starts that nobody has made use of count as of now. Whoever was claimed meanwhile has another token.
-- Each run by its key: a join would read all that is due, whenever the planner last looked at a quiet moment.
update grants g set at = $3 from unnest($1::bigint[], $2::bigint[]) t(meter, since)
where g.meter = t.meter and g.at >= t.since and g.at <= $4
  and (select w.token = g.token and w.held = 0 from waiting w where w.run_id = g.run_id)
