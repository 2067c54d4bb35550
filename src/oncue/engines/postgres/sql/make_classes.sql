insert into classes (task, queue, priority, labels, cpu_milli, memory_mb, slots, made_by)
select task, queue, priority, array(select jsonb_array_elements_text(a.labels::jsonb)), cpu_milli, memory_mb, slots, made_by
from unnest($1::text[], $2::text[], $3::smallint[], $4::text[], $5::int[], $6::int[], $7::int[], $8::int[])
  a(task, queue, priority, labels, cpu_milli, memory_mb, slots, made_by)
on conflict (task, queue, priority, labels, cpu_milli, memory_mb, slots) do nothing
