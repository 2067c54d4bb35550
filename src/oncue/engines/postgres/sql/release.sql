update waiting set held = held & ~$2::smallint where run_id = any($1::uuid[]) returning run_id, meter, held, due
