update jobs set status = $2, updated_at = $3 where job_id = $1 and status < 2  -- status: 2 finished
