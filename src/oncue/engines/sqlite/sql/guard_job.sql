select j.uid, j.version, j.status, a.floor from jobs j left join agenda a on a.job_id = j.job_id where j.job_id = ?1
