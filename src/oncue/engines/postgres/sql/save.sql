update running set progress = coalesce($4, progress), checkpoint = coalesce($5, checkpoint), payload = coalesce($6, payload)
where run_id = $1 and worker_id = $2 and token = $3 returning run_id
