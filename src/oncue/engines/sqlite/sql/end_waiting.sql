insert or fail into {piece} (run_id, job_id, uid, class_id, state, wanted, nominal, trigger, job_version, token, failures, losses, parent,
  ended_at, attempts, name, spec, payload)
select r.run_id, r.job_id, r.uid, r.class_id, ?2, r.wanted, r.nominal, r.trigger, r.job_version, r.token, r.failures, r.losses, r.parent,
  ?3, r.attempts, r.name, r.spec, r.payload
from carray(?1) asked cross join runs r on r.run_id = asked.value
