delete from agenda where job_id = $1 returning next_at, floor, planned, rules
