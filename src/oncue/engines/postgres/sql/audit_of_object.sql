-- Ordered by the whole of the object's index, as in list_live.
select * from audit where (object_id, at, deed_id) < ($5::uuid, $1, $2) and object_id >= $5 and at >= $4
order by object_id desc, at desc, deed_id desc limit $3
