-- name: list_errors
select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors
where (last_seen, uid, fingerprint) < ($1::bigint, $2::int, $3::bigint)
order by last_seen desc, uid desc, fingerprint desc limit $4

-- name: list_errors_of_user
-- Ordered by the whole of the user's index, as in list_live.
select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors
where (uid, last_seen, fingerprint) < ($2::int, $1::bigint, $3::bigint) and uid >= $2
order by uid desc, last_seen desc, fingerprint desc limit $4

-- name: count_letters_of_errors
select i.uid, i.fingerprint, found.n from unnest($1::int[], $2::bigint[]) i (uid, fingerprint) cross join lateral (
  select count(*) as n from (select from dead d where d.uid = i.uid and d.fingerprint = i.fingerprint limit $3) letters) found
where found.n > 0

-- name: try_lock
-- See lock.sql.
select pg_try_advisory_xact_lock($1::bigint # case current_schema() when 'public' then 0 else hashtext(current_schema()) end)

-- name: take_error_counts
delete from error_counts where ctid = any(array(select ctid from error_counts limit $1 for update skip locked))
returning uid, fingerprint, task, error_type, sample, n, first_at, last_at

-- name: find_errors
select e.uid, e.fingerprint, e.task, e.error_type, e.sample, e.n, e.first_seen, e.last_seen, e.hours
from (select distinct * from unnest($1::int[], $2::bigint[])) i (uid, fingerprint) join errors e using (uid, fingerprint)

-- name: count_errors
-- How many groups each of these users has, counted up to a limit.
select i.uid, (select count(*) from (select from errors where uid = i.uid limit $2) found) as n from unnest($1::int[]) i (uid)

-- name: put_errors
insert into errors (uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours)
select * from unnest($1::int[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[])
on conflict (uid, fingerprint) do update set sample = excluded.sample, n = excluded.n, first_seen = excluded.first_seen,
  last_seen = excluded.last_seen, hours = excluded.hours
