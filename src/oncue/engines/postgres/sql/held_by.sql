-- In the shape of a claim. A worker that was declared dead holds nothing, even before its runs are recovered.
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, claimed_at, free_at
from running where run_id = any($1::uuid[]) and worker_id = $2 and exists (select from workers where worker_id = $2)
