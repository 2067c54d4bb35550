insert into jobs (job_id, uid, version, status, class_id, name, spec, payload, created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (job_id) do update set version = excluded.version, status = excluded.status, class_id = excluded.class_id,
  name = excluded.name, spec = excluded.spec, payload = excluded.payload, updated_at = excluded.updated_at
