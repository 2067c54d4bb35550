-- No row: the worker was declared dead. `beat_at` differs each time, also when the clock was set back to where it was. With its
-- place among live workers, each takes its share of a burst without talking to the others; and with that among those that take the
-- same classes, its share of the sweeps.
with me as (
  update workers set beat_at = $2::bigint + (beat_at = $2::bigint)::int, draining = $3, classes = coalesce($4, classes), load = coalesce($5, load) where worker_id = $1
  returning worker_id, drain_at, classes)
select (select count(*) from workers where not draining and drain_at is null and worker_id < $1) as place, (select count(*) from workers where not draining and drain_at is null) as peers, drain_at,
  (select count(*) from workers w where not w.draining and w.drain_at is null and w.classes = me.classes and w.worker_id < $1) as alike_before,
  (select count(*) + 1 from workers w where not w.draining and w.drain_at is null and w.classes = me.classes and w.worker_id <> $1) as alike
from me
