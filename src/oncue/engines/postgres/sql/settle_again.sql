-- Tried again later, unless a cancel was asked for meanwhile. No lane holds it: it keeps its places.
with back as (
  delete from running r using unnest($3::uuid[], $4::bigint[], $5::smallint[], $6::smallint[], $7::bytea[], $8::smallint[])
    s(run_id, due, failures, losses, attempts, held)
  where r.run_id = s.run_id and r.token = $2 and r.worker_id = $1 and r.cancel_at is null {alive}
  returning r.*, s.due as again_at, s.failures as failed, s.losses as lost, s.attempts as tries, s.held)
insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses, held,
  lane, gate, updated_at, parent, name, attempts, checkpoint, spec, payload)
select run_id, job_id, uid, class_id, again_at, wanted, nominal, origin, trigger, job_version, token, failed, lost, held,
  lane, gate, updated_at, parent, name, tries, checkpoint, spec, payload from back
returning run_id
