select run_id, job_id, uid, class_id, state, due, wanted, nominal, trigger, token, failures, losses, job_version, held, started_at, ended_at, cancel_at,
  worker_id, error_type, error, result, attempts, null as payload, spec, progress, parent
from live_runs where {who}run_id > :last and state = 0 order by run_id  -- state: 0 waiting
