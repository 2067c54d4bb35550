select uid, user_id from users where uid = any($1::int[])
