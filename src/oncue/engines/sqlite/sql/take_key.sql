insert into job_keys (uid, key, job_id, definition) values (?, ?, ?, ?)
on conflict (uid, key) do update set job_id = excluded.job_id, definition = excluded.definition
