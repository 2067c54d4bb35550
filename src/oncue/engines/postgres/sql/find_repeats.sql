select r.* from unnest($1::int[], $2::bytea[]) t(uid, key_hash) cross join lateral (
  (select uid, key_hash, body_hash, made, answer from repeats_0 where uid = t.uid and key_hash = t.key_hash)
  union all (select uid, key_hash, body_hash, made, answer from repeats_1 where uid = t.uid and key_hash = t.key_hash)
  limit 1) r
