select count(*)::int as place from (
  select from waiting where class_id = $1 and held = 0 and (due, run_id) < ($2::bigint, $3::uuid) order by due, run_id limit 10000) p  -- held: 0 no
