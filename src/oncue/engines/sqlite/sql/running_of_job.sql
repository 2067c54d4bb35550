-- Few run at a time, and no index knows the jobs of those that do.
select x.run_id from running x cross join runs r on r.run_id = x.run_id where r.job_id = ?1
