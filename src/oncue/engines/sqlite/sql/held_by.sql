-- In the shape of a claim. A worker that was declared dead holds nothing, even before its runs are recovered.
select r.run_id, x.token, r.job_id, r.uid, r.class_id, r.due, r.wanted, r.nominal, r.origin, r.trigger, r.job_version,
  r.failures, r.losses, r.lane, r.gate, r.attempts, coalesce(x.checkpoint, r.checkpoint),
  coalesce(r.spec, j.spec, v.spec), iif(r.spec is not null, r.payload, coalesce(j.payload, v.payload)),
  r.spec is not null, r.parent, r.updated_at, x.claimed_at,
  nullif(max(coalesce(r.free_at, 0), coalesce((select q.at from resumed q cross join classes c on c.queue = q.queue where c.class_id = r.class_id), 0)), 0)
from carray(?1) asked cross join running x on x.run_id = asked.value cross join runs r on r.run_id = x.run_id
left join jobs j on r.spec is null and j.job_id = r.job_id and j.version = r.job_version
left join job_versions v on r.spec is null and v.job_id = r.job_id and v.version = r.job_version
where x.worker_id = ?2 and exists (select 1 from workers w where w.worker_id = ?2)
