select * from waiting_runs where run_id = $1
union all select * from running_runs where run_id = $1
union all select * from dead_runs where run_id = $1
union all (select * from ended_runs where run_id = $1 limit 1)
limit 1
