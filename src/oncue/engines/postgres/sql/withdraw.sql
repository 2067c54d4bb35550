delete from waiting where run_id = any($1::uuid[]) and uid + 0 = $2 and job_version <= $3 and failures + losses = 0 and (token = 0 or run_id = job_id) and origin is null
returning run_id, uid, class_id, token
