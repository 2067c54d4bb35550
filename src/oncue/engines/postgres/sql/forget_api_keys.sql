-- Keys that have not been accepted since then. Few: one statement.
delete from keys where revoked_at < $1 or expires_at < $1
