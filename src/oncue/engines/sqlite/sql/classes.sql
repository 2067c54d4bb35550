select class_id, task, queue, priority, labels, cpu_milli, memory_mb, slots from classes
