insert into probe as p (one, n) values (true, 1) on conflict (one) do update set n = p.n + 1
