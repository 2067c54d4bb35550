-- A worker that was buried gets nothing, even if it has not noticed: its row is gone, or about to go and we wait for that.
-- The rows are locked by their key, then removed by their place: one index descent a run.
with me as (select from workers where worker_id = $2 for key share),
taken as (
  delete from waiting where exists (select from me) and ctid = any(array(
    select ctid from waiting
    where run_id = any($1::uuid[]) and due <= $3 and held = 0 and (expires_at is null or expires_at >= $3)
      and class_id <> all(array(select c.class_id from queues q join classes c using (queue)))
    for update skip locked))
  returning *),
held as (
  insert into running (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    lane, gate, updated_at, parent, name, attempts, checkpoint, spec, payload, worker_id, claimed_at)
  select run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token + 1, failures, losses,
    lane, gate, updated_at, parent, name, attempts, checkpoint, spec, payload, $2, $3 from taken
  returning *)
select h.run_id, h.token, h.job_id, h.uid, h.class_id, h.due, h.wanted, h.nominal, h.origin, h.trigger, h.job_version, h.failures, h.losses,
  h.lane, h.gate, h.attempts, h.checkpoint, coalesce(h.spec, d.spec) as spec, coalesce(h.payload, d.payload) as payload,
  h.spec is not null as inline, h.parent, h.updated_at
from held h left join lateral (
  select spec, payload from jobs j where h.spec is null and j.job_id = h.job_id and j.version = h.job_version
  union all
  select spec, payload from job_versions v where h.spec is null and v.job_id = h.job_id and v.version = h.job_version
  limit 1) d on true
