select p.* from unnest($1::int[]) u(uid) cross join lateral (
  select * from ended_runs where uid = u.uid and ended_at >= $2 order by ended_at desc, run_id desc limit $3) p
order by ended_at desc, run_id desc limit $3
