-- Skips runs that another transaction is claiming, settling or recovering at this moment.
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at, worker_id
from running r where run_id = any($1::uuid[]) and not exists (select from workers w where w.worker_id = r.worker_id)
order by run_id for update of r skip locked
