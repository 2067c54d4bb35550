insert into errors (uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours)
select * from unnest($1::int[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[])
on conflict (uid, fingerprint) do update set sample = excluded.sample, n = excluded.n, first_seen = excluded.first_seen,
  last_seen = excluded.last_seen, hours = excluded.hours
