insert into counters (uid, class_id, what, n) values (?, ?, ?, ?) on conflict do update set n = n + excluded.n
