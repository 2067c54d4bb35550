-- In the shape of a claim.
select r.run_id, r.token, r.job_id, r.uid, r.class_id, r.due, r.wanted, r.nominal, r.origin, r.trigger, r.job_version,
  r.failures, r.losses, r.lane, r.gate, r.attempts, r.checkpoint,
  coalesce(r.spec, j.spec, v.spec), iif(r.spec is not null, r.payload, coalesce(j.payload, v.payload)),
  r.spec is not null, r.parent, r.updated_at, 0, null
from carray(?1) asked cross join runs r on r.run_id = asked.value
left join jobs j on r.spec is null and j.job_id = r.job_id and j.version = r.job_version
left join job_versions v on r.spec is null and v.job_id = r.job_id and v.version = r.job_version
