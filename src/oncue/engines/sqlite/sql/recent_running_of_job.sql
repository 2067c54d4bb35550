-- `running` is as small as the fleet; the job may have any number of waiting runs.
select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent
from running x cross join live_runs v on v.run_id = x.run_id where v.job_id = ?1 limit ?2
