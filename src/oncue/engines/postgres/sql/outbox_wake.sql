-- Rows of these tasks that are to be retried later: now. The others of the range lack a quota or object storage, for example.
update outbox set retry_at = 0 where ctid = any(array(
  select ctid from outbox where retry_at > 0 and retry_at < 4611686018427387904 and task = any($1::text[])
  limit $2 for update skip locked))
returning 1
