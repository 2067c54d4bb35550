-- Starts that nobody has made use of count as of now. Whoever was claimed meanwhile has another token.
update grants g set at = $3 from waiting w, unnest($1::bigint[], $2::bigint[]) t(meter, since)
where g.meter = t.meter and g.at >= t.since and g.at <= $4 and w.run_id = g.run_id and w.token = g.token and w.held = 0
