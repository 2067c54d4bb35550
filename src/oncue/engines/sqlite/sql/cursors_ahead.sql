select a.job_id, a.uid, j.class_id, j.spec, a.next_at, a.planned from agenda a cross join jobs j on j.job_id = a.job_id
where {who}a.next_at >= :since and a.next_at < :until and (a.next_at, a.job_id) > (:at, :last) order by a.next_at, a.job_id limit :limit
