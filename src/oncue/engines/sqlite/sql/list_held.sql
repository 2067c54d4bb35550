-- With each run whether the walk stopped there: that row is returned also if it is of another worker or user.
select v.run_id, v.job_id, v.uid, v.class_id, v.state, v.due, v.wanted, v.nominal, v.trigger, v.token, v.failures, v.losses, v.job_version,
  v.held, v.started_at, v.ended_at, v.cancel_at, v.worker_id, v.error_type, v.error, v.result, v.attempts, null, v.spec, v.progress, v.parent, x.stopped
from (select run_id, worker_id, row_number() over (order by run_id) = ?5 as stopped from running where run_id > ?3 order by run_id limit ?5) x
  cross join live_runs v on v.run_id = x.run_id
where x.stopped or (x.worker_id = ?1 and (?2 is null or v.uid = ?2))
order by x.run_id limit ?4
