-- Ordered by the whole of the user's index, as in list_live.
select * from audit where (uid, at, deed_id) < ($5::int, $1, $2) and uid >= $5 and at >= $4
order by uid desc, at desc, deed_id desc limit $3
