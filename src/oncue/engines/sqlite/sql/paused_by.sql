select b.queue, b.uid from queues q join paused_by b on b.queue = q.queue and b.paused_at = q.paused_at
