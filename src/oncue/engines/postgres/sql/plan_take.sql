select job_id from agenda where next_at >= $1 and next_at <= $2 order by next_at, job_id limit $3 for update skip locked
