-- How many rows come next ($2: at most), and how many of these have payloads of at most so many bytes ($3) together: at least one.
select count(*)::int, count(*) filter (where place = 1 or bytes <= $3)::int from (
  select row_number() over w as place, sum(size) over w as bytes from (
    select retry_at, seq, pg_column_size(payload) as size from outbox where retry_at <= $1 order by retry_at, seq limit $2) next
  window w as (order by retry_at, seq rows unbounded preceding)) sized
