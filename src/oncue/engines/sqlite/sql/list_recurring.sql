select * from recurring_jobs where {who}job_id < :last order by job_id desc
