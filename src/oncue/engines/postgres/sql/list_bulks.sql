select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where bulk_id < $1::uuid order by bulk_id desc limit $2
