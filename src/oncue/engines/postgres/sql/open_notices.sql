-- Notices that have not ended, by user: from the sums, which are up to a second old.
select uid, sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end)::bigint as n
from counters where uid = any($1::int[]) and class_id = $2 group by uid
