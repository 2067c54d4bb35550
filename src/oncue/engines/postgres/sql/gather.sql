-- Like a claim, of runs that only the rate of this one holds: they go with it. It is locked: its end waits for what it took.
-- What has a checkpoint or was requeued has been sent, or may have been, in a message of its own.
with me as (select from workers where worker_id = $2 and drain_at is null for key share),
taken as (
  delete from waiting where exists (select from me) and ctid = any(array(
    select ctid from waiting
    where meter = (select meter from running where run_id = $1 and worker_id = $2 and token = $3 for update) and held = 8 and due <= $4  -- held: 8 rate
      and checkpoint is null and parent is null
    order by due, run_id limit $5 for update skip locked))
  returning *),
held as (
  insert into running (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, worker_id, claimed_at, free_at)
  select run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token + 1, failures, losses,
    lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, $2, $4, greatest(free_at, 0) from taken
  returning *)
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at from held
