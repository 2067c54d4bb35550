insert into classes (task, queue, priority, labels, cpu_milli, memory_mb, slots) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (task, queue, priority, labels, cpu_milli, memory_mb, slots) do nothing
