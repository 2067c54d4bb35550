select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors where uid = ? and fingerprint = ?
