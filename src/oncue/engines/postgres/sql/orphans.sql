-- By anti-join, so that it also finds what a reaper that died half-way left behind.
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, worker_id, claimed_at
from running r where not exists (select from workers w where w.worker_id = r.worker_id)
order by run_id limit $1 for update of r skip locked
