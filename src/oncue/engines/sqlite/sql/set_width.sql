insert into lanes values (?, ?) on conflict do update set width = excluded.width
