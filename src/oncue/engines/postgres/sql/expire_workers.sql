-- Locked in order. A worker with a heartbeat since then no longer matches, and stays.
delete from workers where worker_id in (
  select w.worker_id from workers w join unnest($1::uuid[], $2::bigint[]) t(worker_id, beat_at) using (worker_id, beat_at)
  order by w.worker_id for update of w)
returning worker_id
