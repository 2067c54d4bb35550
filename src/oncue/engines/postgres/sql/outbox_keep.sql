insert into outbox (seq, job_id, uid, role, db_role, task, payload, options, key_hash, body_hash, require_task, at, since, retry_at, why)
overriding system value values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
