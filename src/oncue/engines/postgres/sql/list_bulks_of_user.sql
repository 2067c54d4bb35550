-- Ordered by the whole of the user's index, as in list_live.
select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where (uid, bulk_id) < ($3::int, $1::uuid) and uid >= $3
order by uid desc, bulk_id desc limit $2
