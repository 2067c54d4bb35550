select db_role::text, coalesce((select user_id from users u where u.uid = g.uid), ''), role, granted_at from db_grants g order by db_role
