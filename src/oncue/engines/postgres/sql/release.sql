update waiting set held = held & ~$2::smallint, free_at = $3 where run_id = any($1::uuid[]) returning run_id, meter, held, due
