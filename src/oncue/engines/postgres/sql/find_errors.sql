select e.uid, e.fingerprint, e.task, e.error_type, e.sample, e.n, e.first_seen, e.last_seen, e.hours
from (select distinct * from unnest($1::int[], $2::bigint[])) i (uid, fingerprint) join errors e using (uid, fingerprint)
