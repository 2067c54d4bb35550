insert into jobs (job_id, uid, version, status, class_id, name, created_at, updated_at, spec, payload) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set version = excluded.version, status = excluded.status, class_id = excluded.class_id, name = excluded.name,
  updated_at = excluded.updated_at, spec = excluded.spec, payload = excluded.payload
