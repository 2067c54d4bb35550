insert into errors (uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours) values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set sample = excluded.sample, n = excluded.n, first_seen = excluded.first_seen,
  last_seen = excluded.last_seen, hours = excluded.hours
