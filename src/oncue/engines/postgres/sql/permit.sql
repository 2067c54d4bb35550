-- The runs are sorted, and width_bucket finds the instant of each: see settle_final.
update waiting set held = held & ~8, free_at = $3, due = ($2::bigint[])[width_bucket(run_id, $1::uuid[])] where run_id = any($1::uuid[])  -- held: 8 rate
