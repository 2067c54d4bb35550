select k.class_id, k.task, k.queue, k.priority, k.labels, k.cpu_milli, k.memory_mb, k.slots, o.open
from (
  select class_id, sum(iif(what = 'created', n, -n)) as open from totals
  where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') group by 1) o
cross join classes k on k.class_id = o.class_id
where o.open > 0 order by o.open desc, k.class_id limit ?1
