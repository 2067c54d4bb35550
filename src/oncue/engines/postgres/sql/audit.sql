select * from audit where (at, deed_id) < ($1, $2) order by at desc, deed_id desc limit $3
