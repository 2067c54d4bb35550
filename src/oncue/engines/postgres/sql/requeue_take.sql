delete from dead where run_id = any($1::uuid[]) returning run_id, uid, class_id
