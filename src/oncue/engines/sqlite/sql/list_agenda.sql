select j.* from agenda a cross join recurring_jobs j on j.job_id = a.job_id
where {who}a.next_at >= :start and a.next_at < :end and (a.next_at, a.job_id) > (:at, :last) order by a.next_at, a.job_id
