select j.*, a.next_at, a.floor, a.planned, a.rules from jobs j left join agenda a using (job_id) where j.job_id = $1
