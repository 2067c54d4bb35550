select coalesce(sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end), 0)
from counters where uid = ?1 and class_id = ?2
