select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, payload, spec, null, parent
from {table} where run_id = ?
