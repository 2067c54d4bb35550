select run_id from {table} where {whose}job_id = ?1 and job_id <> run_id limit ?2
