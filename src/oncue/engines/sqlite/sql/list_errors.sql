select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors
where {who}(last_seen, uid, fingerprint) < (:at, :last_uid, :last) order by last_seen desc, uid desc, fingerprint desc limit :limit
