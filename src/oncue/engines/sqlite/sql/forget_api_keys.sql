-- Keys that have not been accepted since then.
delete from keys where key_id in (select key_id from keys where revoked_at < ?1 or expires_at < ?1 limit ?2)
