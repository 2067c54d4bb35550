select k.*, u.user_id from keys k join users u using (uid) order by k.created_at, k.key_id
