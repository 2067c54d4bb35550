select run_id, uid, job_version, iif(state = 4, 3, 2), class_id, name, null, ended_at, iif(run_id = job_id, spec, null), payload, null, 1  -- state: 4 cancelled; status: 2 finished, 3 cancelled
from {table} where run_id = ?
