select body_hash, made, answer from repeats_0 where uid = ?1 and key_hash = ?2
union all select body_hash, made, answer from repeats_1 where uid = ?1 and key_hash = ?2
