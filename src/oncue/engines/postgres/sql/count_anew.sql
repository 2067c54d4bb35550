-- Starts that nobody has made use of count as of now. Whoever was claimed meanwhile has another token.
update grants g set at = $2 from waiting w
where g.meter = any($1::bigint[]) and g.at <= $3 and w.run_id = g.run_id and w.token = g.token and w.held = 0
