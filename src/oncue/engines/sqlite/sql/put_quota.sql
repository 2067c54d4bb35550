insert into quotas (uid, jobs, payload, runs) values (?, ?, ?, ?)
on conflict do update set jobs = excluded.jobs, payload = excluded.payload, runs = excluded.runs
