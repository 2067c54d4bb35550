select job_id, uid, status, updated_at from jobs where job_id > $1 order by job_id limit $2
