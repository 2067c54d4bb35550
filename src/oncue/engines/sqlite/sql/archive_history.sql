select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, payload, spec, null, parent
from {piece} where (uid, ended_at, run_id) > (?1, ?2, ?3) order by uid, ended_at, run_id limit ?4
