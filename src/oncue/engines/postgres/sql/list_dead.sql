select * from dead_runs where (ended_at, run_id) < ($1::bigint, $2::uuid) order by ended_at desc, run_id desc limit $3
