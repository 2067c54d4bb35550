delete from waiting where run_id = any($1::uuid[]) and held & 1 = 1 and failures + losses = 0
returning run_id, job_id, uid, class_id, lane, gate
