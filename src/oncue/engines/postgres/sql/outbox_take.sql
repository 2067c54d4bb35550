-- The next rows after a place ($4, $5), whose payloads have together at most so many bytes ($3), but for the last one. By their
-- places, which is one scan of the index and no other; rows that another process has in hand are skipped.
delete from outbox where ctid = any(array(
  select place from (
    select place, sum(size) over (order by retry_at, seq rows unbounded preceding) - size as bytes_before from (
      select ctid as place, retry_at, seq, pg_column_size(payload) as size from outbox
      where retry_at <= $1 and (retry_at, seq) > ($4::bigint, $5::bigint)
      order by retry_at, seq limit $2 for update skip locked) next) sized
  where bytes_before < $3::bigint))
returning seq, job_id, uid, role, db_role, task, payload, options, key_hash, body_hash, require_task, at, since, retry_at, why,
  pg_column_size(payload) as bytes
