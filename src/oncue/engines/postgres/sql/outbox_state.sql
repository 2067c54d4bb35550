select
  (select count(*) from (select from outbox where retry_at < 4611686018427387904 limit $1) w)::int,
  (select count(*) from (select from outbox where retry_at >= 4611686018427387904 limit $1) r)::int,
  (select min(at) from (select at from outbox where retry_at < 4611686018427387904 order by seq limit $1) o)
