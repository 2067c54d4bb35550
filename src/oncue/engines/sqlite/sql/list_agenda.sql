select j.* from agenda a cross join recurring_jobs j on j.job_id = a.job_id
where a.uid = ?1 and a.next_at >= ?2 and a.next_at < ?3 and (a.next_at, a.job_id) > (?4, ?5) order by a.next_at, a.job_id
