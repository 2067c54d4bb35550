select run_id from waiting where run_id = any($1::uuid[])
union all select run_id from running where run_id = any($1::uuid[])
union all select run_id from dead where run_id = any($1::uuid[])
union all select run_id from history where run_id = any($1::uuid[])
