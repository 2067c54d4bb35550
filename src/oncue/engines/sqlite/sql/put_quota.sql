insert into quotas (uid, jobs, payload) values (?, ?, ?) on conflict do update set jobs = excluded.jobs, payload = excluded.payload
