update jobs set status = 2, updated_at = $2 where job_id = any($1::uuid[]) and status = 0  -- status: 0 active, 2 finished
