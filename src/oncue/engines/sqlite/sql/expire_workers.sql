delete from workers where worker_id = ? and beat_at = ? returning worker_id
