-- Few runs are running at a time, and no index has their jobs.
select x.run_id from running x cross join runs r on r.run_id = x.run_id where r.job_id = ?1
