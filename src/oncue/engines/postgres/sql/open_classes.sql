select k.class_id, k.task, k.queue, k.priority, k.labels, k.cpu_milli, k.memory_mb, k.slots, o.open
from (
  select class_id, sum(case what when 'created' then n else -n end)::bigint as open
  from (select class_id, what, n from totals union all select class_id, what, n from tally) c
  where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') group by 1) o
join classes k using (class_id)
where o.open > 0 order by o.open desc, k.class_id limit $1
