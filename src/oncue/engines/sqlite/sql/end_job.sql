-- Only an active or paused job: a finished job stays finished.
update jobs set status = ?1, updated_at = ?2 where job_id = ?3 and status < 2  -- status: 2 finished
