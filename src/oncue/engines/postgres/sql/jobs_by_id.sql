select j.job_id, j.uid, j.version, j.status, j.class_id, j.spec, j.payload, j.created_at, j.updated_at, a.next_at
from jobs j left join agenda a using (job_id) where j.job_id = any($1::uuid[])
