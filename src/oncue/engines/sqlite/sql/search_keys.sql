select key, job_id from job_keys where uid = ?1 and key >= ?2 and key < ?3 order by key limit ?4
