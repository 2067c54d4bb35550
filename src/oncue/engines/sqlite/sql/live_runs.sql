-- As live_run, of many.
select run_id, job_id, uid, class_id, state, due, wanted, nominal, trigger, token, failures, losses, job_version, held, started_at, ended_at, cancel_at,
  worker_id, error_type, error, result, attempts, null as payload, spec, progress, parent
from carray(?) asked cross join live_runs r on r.run_id = asked.value
