select j.*, a.next_at, a.floor, a.planned, a.rules from recurring_jobs j join agenda a on a.job_id = j.job_id where j.job_id = ?1
