insert into worker_names (worker_id, name, seen_at) values (?, ?, ?)
on conflict do update set name = excluded.name, seen_at = excluded.seen_at
