select k.uid, k.key, k.job_id
from unnest($1::int[], $2::text[]) a(uid, key)
  cross join lateral (select * from job_keys where uid = a.uid and key = a.key limit 1) k
