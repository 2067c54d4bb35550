select distinct job_id from job_tags where job_id < ?1
