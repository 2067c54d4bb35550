delete from errors where (uid, fingerprint) in (
  select uid, fingerprint from errors where last_seen < $1 order by last_seen, uid, fingerprint limit $2) returning 1
