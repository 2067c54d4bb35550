-- Runs that only the rate of this one holds: free, to be claimed next.
-- What has a checkpoint or was requeued has been sent, or may have been, in a message of its own.
update runs set held = 0 where run_id in (  -- held: 0 no
  select r.run_id from runs r
  where r.meter = (select l.meter from runs l join running x on x.run_id = l.run_id where l.run_id = ?1 and x.worker_id = ?2 and x.token = ?3)
    and r.held = 8 and r.due <= ?4 and r.checkpoint is null and r.parent is null  -- held: 8 rate
  order by r.due, r.run_id limit ?5)
returning run_id
