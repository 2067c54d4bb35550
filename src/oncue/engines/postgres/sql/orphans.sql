-- By anti-join, so that it also finds what a reaper that died half-way left behind.
with lost as (
  select r.* from running r where not exists (select from workers w where w.worker_id = r.worker_id)
  order by r.run_id limit $1 for update of r skip locked)
select h.run_id, h.token, h.job_id, h.uid, h.class_id, h.due, h.wanted, h.nominal, h.origin, h.trigger, h.job_version, h.failures, h.losses,
  h.lane, h.gate, h.attempts, h.checkpoint, coalesce(h.spec, d.spec) as spec, coalesce(h.payload, d.payload) as payload,
  h.spec is not null as inline, h.parent, h.updated_at, h.worker_id, h.claimed_at
from lost h left join lateral (
  select spec, payload from jobs j where h.spec is null and j.job_id = h.job_id and j.version = h.job_version
  union all
  select spec, payload from job_versions v where h.spec is null and v.job_id = h.job_id and v.version = h.job_version
  limit 1) d on true
