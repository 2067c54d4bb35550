select c.class_id, c.used_at, a.n
from unnest($1::text[], $2::text[], $3::smallint[], $4::text[], $5::int[], $6::int[], $7::int[])
  with ordinality a(task, queue, priority, labels, cpu_milli, memory_mb, slots, n)
  join classes c on c.task = a.task and c.queue = a.queue and c.priority = a.priority
    and c.labels = array(select jsonb_array_elements_text(a.labels::jsonb))
    and c.cpu_milli = a.cpu_milli and c.memory_mb = a.memory_mb and c.slots = a.slots
