insert into counters values (?, ?, ?, ?) on conflict do update set n = n + excluded.n
