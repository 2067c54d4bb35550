-- Waits for a claim in flight, so that the answer is the truth. A run to expire (5) must still have to: since it was read, an
-- edit may have put another run in its place, with the same id.
with gone as (delete from waiting where run_id = any($1::uuid[]) and ($3 <> 5 or (expires_at < $2 and token = 0)) returning *),
kept as (
  insert into history (run_id, job_id, uid, class_id, state, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    parent, ended_at, attempts, name, spec, payload)
  select run_id, job_id, uid, class_id, $3, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    parent, $2, attempts, name, spec, payload from gone)
select run_id, uid, class_id, lane, gate from gone
