-- The oldest entries, and all of the same instant as the last of these.
delete from ledger where job_id = $1 and last_at <= coalesce(
  (select last_at from ledger where job_id = $1 order by last_at, entry_id offset $2 - 1 limit 1), 9223372036854775807)
returning entry_id
