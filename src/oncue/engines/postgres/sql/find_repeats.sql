select r.uid, r.key_hash, r.body_hash, r.job_id
from unnest($1::int[], $2::bytea[]) t(uid, key_hash) join repeats r using (uid, key_hash)
