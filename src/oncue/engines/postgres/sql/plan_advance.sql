update agenda a set next_at = t.next_at, floor = greatest(a.floor, t.floor), planned = t.planned, rules = t.rules
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::int[], $5::text[]) t(job_id, next_at, floor, planned, rules) where a.job_id = t.job_id
