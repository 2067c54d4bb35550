-- In history one by one: of a piece that is still empty the planner would read the whole index, and go on when it is not.
select run_id from waiting where run_id = any($1::uuid[])
union all select run_id from running where run_id = any($1::uuid[])
union all select run_id from dead where run_id = any($1::uuid[])
union all select h.run_id from unnest($1::uuid[]) i(run_id) cross join lateral (select run_id from history where run_id = i.run_id limit 1) h
