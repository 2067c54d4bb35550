delete from workers where beat_at + lease < $1 returning worker_id
