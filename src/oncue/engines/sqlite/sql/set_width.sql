insert into lanes (lane, width) values (?, ?) on conflict do update set width = excluded.width
