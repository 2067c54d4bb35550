select job_id from job_tags where {who}tag = ?2 and job_id < ?3 order by job_id desc
