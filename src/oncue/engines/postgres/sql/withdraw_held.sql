-- The runs in $2 are not held but admitted: they are withdrawn unless a worker has claimed them.
delete from waiting where run_id = any($1::uuid[]) and failures + losses = 0 and (held & 1 = 1 or token = 0 and run_id = any($2::uuid[]))  -- held: 1 lane
returning run_id, job_id, uid, class_id, lane, gate
