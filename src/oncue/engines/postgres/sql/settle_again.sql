-- Retries later, unless a cancel was requested meanwhile. No lane holds the run: it keeps its positions,
-- but it waits for its rate again, unless it was only returned to the queue. Paired as in settle_final.
with back as (
  delete from running r where r.run_id = any($3::uuid[]) and r.token = $2 and r.worker_id = $1 and r.cancel_at is null {alive}
  returning r.*, width_bucket(r.run_id, $3::uuid[]) as i)
insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, token, failures, losses, held,
  lane, gate, meter, updated_at, parent, name, attempts, checkpoint, spec, payload, tried_at, free_at)
select run_id, job_id, uid, class_id, ($4::bigint[])[i], wanted, nominal, origin, trigger, job_version, token, ($5::smallint[])[i],
  ($6::smallint[])[i], ($8::smallint[])[i] | case when meter is null then 0 else $9::smallint end, lane, gate, meter, updated_at, parent, name, ($7::bytea[])[i], checkpoint, spec, payload, ($10::bigint[])[i], ($10::bigint[])[i] from back
returning run_id, meter, held, due
