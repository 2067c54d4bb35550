select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent
from runs r indexed by runs_tried cross join live_runs v on v.run_id = r.run_id and v.state = 0  -- state: 0 waiting
where r.uid = ?1 and r.tried_at >= ?3 and r.failures + r.losses > 0 and r.job_id = ?2 order by r.tried_at desc, r.run_id desc limit ?4
