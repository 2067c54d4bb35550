select r.run_id, r.token + 1, r.job_id, r.uid, r.class_id, r.due, r.wanted, r.nominal, r.origin, r.trigger, r.job_version,
  r.failures, r.losses, r.lane, r.gate, r.attempts, r.checkpoint,
  coalesce(r.spec, (select spec from jobs j where j.job_id = r.job_id and j.version = r.job_version),
    (select spec from job_versions v where v.job_id = r.job_id and v.version = r.job_version)),
  iif(r.spec is not null, r.payload, coalesce(
    (select payload from jobs j where j.job_id = r.job_id and j.version = r.job_version),
    (select payload from job_versions v where v.job_id = r.job_id and v.version = r.job_version))),
  r.spec is not null, r.parent, r.updated_at, ?2,
  nullif(max(coalesce(r.free_at, 0), coalesce((select q.at from resumed q cross join classes c on c.queue = q.queue where c.class_id = r.class_id), 0)), 0)
from carray(?1) asked cross join runs r on r.run_id = asked.value
where r.held = 0 and r.due <= ?2 and (r.expires_at is null or r.expires_at >= ?2)  -- held: 0 no
  and not exists (select 1 from running x where x.run_id = r.run_id)
  and r.class_id not in (select c.class_id from queues q join classes c on c.queue = q.queue)
  and r.job_id not in (select job_id from unfinished where stops)
