select * from live_one_shots where uid = ?1 and wanted >= ?2 and wanted < ?3 and (wanted, job_id) > (?4, ?5) and next_at is not null
order by wanted, job_id
