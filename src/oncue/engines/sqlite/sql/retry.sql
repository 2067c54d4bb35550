-- Waits again and keeps its positions: no lane holds the run, only a pause of its job may, and its rate unless it was only returned to the queue.
update runs set due = ?1, token = ?2, failures = ?3, losses = ?4, attempts = ?5, expires_at = null, tried_at = ?11, free_at = ?11,
  held = iif((select status from jobs j where j.job_id = runs.job_id and runs.spec is null) = ?7, ?6, 0) | iif(meter is null, 0, ?8),
  checkpoint = coalesce((select checkpoint from running x where x.run_id = runs.run_id), checkpoint)
where run_id = ?12 returning meter, held, due
