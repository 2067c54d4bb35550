-- By their places, which is one scan of the index and no other; rows that another process has in hand are skipped.
delete from outbox o where ctid = any(array(
  select ctid from outbox where retry_at <= $1 order by retry_at, seq limit $2 for update skip locked))
returning seq, job_id, uid, (select user_id from users u where u.uid = o.uid), role, db_role, task, payload, options,
  key_hash, body_hash, require_task, at, since, retry_at, why
