-- In the shape of a claim.
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, 0::bigint, null::bigint
from waiting where run_id = any($1::uuid[])
