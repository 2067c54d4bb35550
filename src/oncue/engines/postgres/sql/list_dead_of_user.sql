-- Ordered by the whole of the user's index, as in list_live.
select * from dead_runs where (uid, ended_at, run_id) < ($4::int, $1::bigint, $2::uuid) and uid >= $4
order by uid desc, ended_at desc, run_id desc limit $3
