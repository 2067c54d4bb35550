-- Keys that have not been accepted since then. Few: one statement, in one turn.
delete from keys where revoked_at < ?1 or expires_at < ?1
