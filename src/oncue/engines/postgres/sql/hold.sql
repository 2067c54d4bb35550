update waiting set held = held | $3::smallint where run_id = any($1::uuid[]) and uid + 0 = $2 returning run_id, meter, held, due
