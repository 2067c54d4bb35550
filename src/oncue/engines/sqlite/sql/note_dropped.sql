insert into notices_dropped (uid, n, reported) values (?1, ?2, 0) on conflict do update set n = n + ?2
