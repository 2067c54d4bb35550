select a.job_id, j.status, j.spec, j.created_at, j.updated_at, a.next_at, a.floor, a.planned, a.rules
from agenda a cross join jobs j on j.job_id = a.job_id where a.job_id > ?1 order by a.job_id limit ?2
