select p.* from unnest($1::int[]) u(uid) cross join lateral (
  select * from ended_runs where uid = u.uid and (ended_at, run_id) < ($2::bigint, $3::uuid)
  order by ended_at desc, run_id desc limit $4) p
order by ended_at desc, run_id desc limit $4
