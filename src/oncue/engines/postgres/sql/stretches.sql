select * from ledger where job_id = $1 and last_at >= $2 and first_at <= $3 order by last_at, entry_id limit $4
