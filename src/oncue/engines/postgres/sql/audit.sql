select * from audit where (at, deed_id) < ($1, $2) and at >= $4 order by at desc, deed_id desc limit $3
