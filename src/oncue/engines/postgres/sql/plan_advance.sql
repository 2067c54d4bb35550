update agenda a set next_at = t.next_at, floor = greatest(a.floor, t.floor), planned = t.planned
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::int[]) t(job_id, next_at, floor, planned) where a.job_id = t.job_id
