select job_id from agenda where next_at <= $1 order by next_at, job_id limit $2 for update skip locked
