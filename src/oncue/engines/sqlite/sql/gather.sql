-- Runs that only the rate of this one holds: free, to be claimed next.
update runs set held = 0 where run_id in (  -- held: 0 no
  select r.run_id from runs r
  where r.meter = (select l.meter from runs l join running x on x.run_id = l.run_id where l.run_id = ?1 and x.worker_id = ?2 and x.token = ?3)
    and r.held = 8 and r.due <= ?4 order by r.due, r.run_id limit ?5)  -- held: 8 rate
returning run_id
