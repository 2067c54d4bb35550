-- The fence. What does not come back was lost: its settlement is dropped. A buried worker has lost everything.
delete from running where run_id = any($1::uuid[]) and worker_id = $2 and token = $3
  and exists (select from workers where worker_id = $2 for key share)
returning run_id, cancel_at, checkpoint
