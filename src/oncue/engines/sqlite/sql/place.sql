-- With its place among live workers, each takes its share of a burst without talking to the others; and with that among those that
-- take the same classes, its share of the sweeps. A draining worker takes none.
select count(*) filter (where w.worker_id < ?1), count(*),
  count(*) filter (where w.classes = me.classes and w.worker_id < ?1), count(*) filter (where w.classes = me.classes)
from workers w cross join (select classes from workers where worker_id = ?1) me
where not w.draining and w.drain_at is null or w.worker_id = ?1
