-- The runs are sorted, and width_bucket finds the instant of each: see settle_final.
with held as (
  update waiting set held = held | 8, due = ($4::bigint[])[width_bucket(run_id, $2::uuid[])] where run_id = any($2::uuid[]))  -- held: 8 rate
delete from grants g using unnest($1::bigint[], $2::uuid[], $3::int[]) t(meter, run_id, token)
where g.meter = t.meter and g.at >= $5 and g.run_id = t.run_id and g.token = t.token
