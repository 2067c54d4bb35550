insert into classes (task, queue, priority, labels, cpu_milli, memory_mb, slots, made_by) values (?, ?, ?, ?, ?, ?, ?, ?)
