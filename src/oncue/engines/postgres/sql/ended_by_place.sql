select v.* from unnest($1::int[], $2::bigint[], $3::uuid[]) i(uid, ended_at, run_id) cross join lateral (
  select * from ended_runs where uid = i.uid and ended_at = i.ended_at and run_id = i.run_id limit 1) v
order by v.ended_at desc, v.run_id desc
