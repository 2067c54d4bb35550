-- Whoever revokes one of them waits for whoever was before, and then does not see what that one revoked.
select key_id from keys where role = 'admin' and revoked_at is null and (expires_at is null or expires_at > $1)
order by key_id for update
