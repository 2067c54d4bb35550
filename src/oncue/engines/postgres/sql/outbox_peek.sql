select from outbox where retry_at <= $1 limit 1
