select worker_id, name from worker_names where worker_id = any($1::uuid[])
