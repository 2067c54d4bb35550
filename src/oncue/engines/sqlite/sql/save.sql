update running set progress = coalesce(?4, progress), checkpoint = coalesce(?5, checkpoint)
where run_id = ?1 and token = ?2 and worker_id = ?3 and worker_id in (select worker_id from workers)
returning run_id
