-- A read without locks, so that it also finds meters that others have locked now and may leave unchanged.
update meters m set free_at = t.free_at, check_at = t.check_at, given = t.given, next_at = coalesce(
  (select greatest(w.due, t.free_at) from waiting w where w.meter = m.meter and w.held = 8 order by w.due, w.run_id limit 1), $5)  -- held: 8 rate
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[]) t(meter, free_at, check_at, given) where m.meter = t.meter
