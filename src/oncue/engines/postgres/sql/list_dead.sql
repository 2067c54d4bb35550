select * from dead_runs where ($1::int is null or uid = $1) and (ended_at, run_id) < ($2::bigint, $3::uuid)
order by ended_at desc, run_id desc limit $4
