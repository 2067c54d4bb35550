select x.run_id, x.worker_id, x.claimed_at, x.cancel_at, coalesce(r.spec, j.spec, v.spec)
from running x cross join runs r on r.run_id = x.run_id
left join jobs j on r.spec is null and j.job_id = r.job_id and j.version = r.job_version
left join job_versions v on r.spec is null and v.job_id = r.job_id and v.version = r.job_version
where x.run_id > ?1 and x.claimed_at < ?2 and exists (select 1 from workers w where w.worker_id = x.worker_id)
order by x.run_id limit ?3
