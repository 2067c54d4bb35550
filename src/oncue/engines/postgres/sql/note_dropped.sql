insert into notices_dropped as d (uid, n, reported) select uid, n, 0 from unnest($1::int[], $2::bigint[]) as given (uid, n)
on conflict (uid) do update set n = d.n + excluded.n
