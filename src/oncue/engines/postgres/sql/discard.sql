delete from dead where run_id = any($1::uuid[]) and ($2::int is null or uid = $2) returning run_id
