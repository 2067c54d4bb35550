select k.*, u.user_id from keys k join users u using (uid) where k.key_hash = $1
