select * from audit where ($1::int is null or uid = $1) and (at, deed_id) < ($2, $3) order by at desc, deed_id desc limit $4
