select * from {piece} where (at, deed_id) > ($1::bigint, $2::bigint) order by at, deed_id limit $3
