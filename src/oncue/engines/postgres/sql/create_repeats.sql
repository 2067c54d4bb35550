insert into repeats (uid, key_hash, body_hash, job_id, at)
select uid, k, b, j, $5 from unnest($1::int[], $2::bytea[], $3::bytea[], $4::uuid[]) t(uid, k, b, j) order by uid, k
on conflict (uid, key_hash) do nothing returning uid, key_hash, job_id
