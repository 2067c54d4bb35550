select class_id, task, queue, priority, labels, cpu_milli, memory_mb, slots from classes where class_id > $1 order by class_id limit $2
