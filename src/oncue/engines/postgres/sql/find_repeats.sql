select r.* from unnest($1::int[], $2::bytea[]) t(uid, key_hash) cross join lateral (
  select uid, key_hash, body_hash, job_id from repeats where uid = t.uid and key_hash = t.key_hash limit 1) r
