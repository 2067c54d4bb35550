-- Runs that only their rate holds. A transaction that has locked one may lock our meter next: we do not wait for it.
select t.meter, w.run_id, w.due, w.token from unnest($1::bigint[], $2::int[]) t(meter, most) cross join lateral (
  select run_id, due, token from waiting
  where meter = t.meter and held = 8 and due <= $3 and (expires_at is null or expires_at >= $4)  -- held: 8 rate
  order by due, run_id limit t.most for update skip locked) w
limit $5
