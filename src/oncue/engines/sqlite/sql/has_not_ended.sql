select job_id from jobs where job_id = ?1 and status < 2  -- status: 2 finished
union all select r.run_id from runs r left join running x on x.run_id = r.run_id where r.run_id = ?1 and x.cancel_at is null
