insert into db_grants (db_role, uid, role, granted_at) values ($1, $2, $3, $4)
on conflict (db_role) do update set uid = $2, role = $3, granted_at = $4
