select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors
where (last_seen, uid, fingerprint) < ($1::bigint, $2::int, $3::bigint)
order by last_seen desc, uid desc, fingerprint desc limit $4
