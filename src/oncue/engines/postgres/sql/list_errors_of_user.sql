-- Ordered by the whole of the user's index, as in list_live.
select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors
where (uid, last_seen, fingerprint) < ($2::int, $1::bigint, $3::bigint) and uid >= $2
order by uid desc, last_seen desc, fingerprint desc limit $4
