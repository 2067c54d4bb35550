select class_id, used_at from classes
where task = ? and queue = ? and priority = ? and labels = ? and cpu_milli = ? and memory_mb = ? and slots = ?
