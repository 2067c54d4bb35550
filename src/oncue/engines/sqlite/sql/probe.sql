insert into probe (one, n) values (1, 1) on conflict do update set n = n + 1
