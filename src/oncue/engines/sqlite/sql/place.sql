-- With its place among live workers, each takes its share of a burst without talking to the others; and with that among those that
-- take the same classes and were not silent for half of their leases, its share of the sweeps. A draining worker takes none.
select count(*) filter (where w.worker_id < ?1), count(*),
  count(*) filter (where w.classes = me.classes and w.beat_at > me.beat_at - w.lease / 2 and w.worker_id < ?1),
  count(*) filter (where w.classes = me.classes and w.beat_at > me.beat_at - w.lease / 2)
from workers w cross join (select classes, beat_at from workers where worker_id = ?1) me
where not w.draining and w.drain_at is null or w.worker_id = ?1
