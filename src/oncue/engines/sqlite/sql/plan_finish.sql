update jobs set status = 2, updated_at = ?1 where job_id = ?2 and status = 0  -- status: 0 active, 2 finished
