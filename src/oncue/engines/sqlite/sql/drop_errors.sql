delete from errors where (uid, fingerprint) in (
  select uid, fingerprint from errors where last_seen < ? order by last_seen, uid, fingerprint limit ?) returning 1
