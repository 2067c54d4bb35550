select * from live_one_shots where uid = :uid and next_at >= :start and next_at < :end and (next_at, job_id) > (:at, :last)
