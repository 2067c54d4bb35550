select job_id from job_tags where job_id < ?1
union select job_id from job_keys where job_id < ?1
