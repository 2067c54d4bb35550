-- Takes each key for its job or finds its holder; either way the row is locked until the end of the transaction.
insert into job_keys (uid, key, job_id, definition) select * from unnest($1::int[], $2::text[], $3::uuid[], $4::bytea[])
on conflict (uid, key) do update set job_id = job_keys.job_id returning uid, key, job_id
