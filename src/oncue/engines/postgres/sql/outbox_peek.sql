select 1 from outbox where retry_at <= $1 order by retry_at, seq limit 1
