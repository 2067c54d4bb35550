select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
from {piece} where uid = :uid and (ended_at, run_id) < (:at, :last) order by ended_at desc, run_id desc limit :limit
