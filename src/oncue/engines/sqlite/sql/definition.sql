select spec, payload from jobs where job_id = ?1 and version = ?2
union all select spec, payload from job_versions where job_id = ?1 and version = ?2
limit 1
