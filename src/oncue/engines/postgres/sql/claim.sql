-- A worker that was declared dead gets nothing, even if it has not noticed: its row is gone, or about to go and we wait for that.
-- Nor does one that is drained, and a claim that arrives after its worker has sent a heartbeat later than its deadline.
-- The rows are locked by their key, then removed by their place: one index descent a run. `held + 0` keeps the planner from
-- walking everything that is due (the index where held = 0) while the statistics are young: 13 ms a thousand became 420.
with me as (select from workers where worker_id = $2 and drain_at is null and beat_at <= $4 for key share),
taken as (
  delete from waiting where exists (select from me) and ctid = any(array(
    select ctid from waiting
    where run_id = any($1::uuid[]) and due <= $3 and held + 0 = 0 and (expires_at is null or expires_at >= $3)  -- held: 0 no
      and class_id <> all(array(select c.class_id from queues q join classes c using (queue)))
      and job_id <> all(array(select unnest(stopped_jobs())))
    for update skip locked))
  returning *),
held as (
  insert into running (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, worker_id, claimed_at, free_at)
  select run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token + 1, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, $2, $3, greatest(case when free_at > 0 then free_at end,
    case when class_id = any(array(select c.class_id from resumed q join classes c using (queue)))
      then (select q.at from resumed q join classes c using (queue) where c.class_id = taken.class_id) end) from taken
  returning *)
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at from held
