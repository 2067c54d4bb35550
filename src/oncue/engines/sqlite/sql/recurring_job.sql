select * from recurring_jobs where job_id = ?
