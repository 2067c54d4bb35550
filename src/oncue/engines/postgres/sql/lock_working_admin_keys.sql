-- A transaction that revokes one of them waits for an earlier one, and then does not see the key that it revoked.
select key_id from keys where role = 'admin' and revoked_at is null and (expires_at is null or expires_at > $1)
order by key_id for update
