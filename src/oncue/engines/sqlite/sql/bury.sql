delete from workers where beat_at + lease < ? returning worker_id
