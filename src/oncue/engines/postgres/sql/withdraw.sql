delete from waiting where run_id = any($1::uuid[]) and failures + losses = 0 and job_version = $2 and origin is null
returning run_id, uid, class_id, lane, gate
