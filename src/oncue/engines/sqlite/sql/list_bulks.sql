select bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why from bulks where {who}bulk_id < :last order by bulk_id desc limit :limit
