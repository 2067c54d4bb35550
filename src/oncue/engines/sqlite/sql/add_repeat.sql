insert into repeats values (?, ?, ?, ?, ?) on conflict do nothing
