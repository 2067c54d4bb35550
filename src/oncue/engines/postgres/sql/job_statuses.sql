select job_id, status from jobs where job_id = any($1::uuid[]) order by job_id for share
