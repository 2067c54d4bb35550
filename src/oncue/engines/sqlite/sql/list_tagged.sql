select job_id from job_tags where uid = ? and tag = ? and job_id < ? order by job_id desc
