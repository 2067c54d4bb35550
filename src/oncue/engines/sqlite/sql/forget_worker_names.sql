delete from worker_names where worker_id in (
  select worker_id from worker_names where seen_at < ?1 and worker_id not in (select worker_id from workers) limit ?2)
