-- No row: the worker was declared dead. `beat_at` differs each time, also when the clock was set back to where it was. With its
-- place among live workers, each takes its share of a burst without talking to the others; and with that among those that take the
-- same classes and were not silent for half of their leases, its share of the sweeps.
with me as (
  update workers set beat_at = $2::bigint + (beat_at = $2::bigint)::int, draining = $3, classes = coalesce($4, classes), load = coalesce($5, load) where worker_id = $1
  returning drain_at, classes)
select count(w.worker_id) filter (where w.worker_id < $1) as place, count(w.worker_id) as peers, me.drain_at,
  count(w.worker_id) filter (where w.worker_id < $1 and w.classes = me.classes and w.beat_at > $2 - w.lease / 2) as alike_before,
  count(w.worker_id) filter (where w.worker_id <> $1 and w.classes = me.classes and w.beat_at > $2 - w.lease / 2) + 1 as alike
from me left join workers w on not w.draining and w.drain_at is null
group by me.drain_at
