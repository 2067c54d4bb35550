-- The fence is (run, token, worker): what does not come back was lost, and a buried worker has lost everything.
-- The whole row goes into history, so only what the attempt came to travels here; an array that is null stands for nulls.
-- A cancel that was asked for wins.
with ended as (
  delete from running r using unnest($4::uuid[], $5::bigint[], $6::bigint[], $7::smallint[], $8::smallint[], $9::text[], $10::text[],
      $11::bytea[], $12::bytea[])
    s(run_id, started_at, ended_at, failures, losses, error_type, error, result, attempts)
  where r.run_id = s.run_id and r.token = $2 and r.worker_id = $1 {alive}
  returning r.*, case when r.cancel_at is null then $3::smallint else 4 end as final, s.started_at, s.ended_at,
    coalesce(s.failures, r.failures) as failed, coalesce(s.losses, r.losses) as lost, s.error_type, s.error, s.result,
    coalesce(s.attempts, r.attempts) as tries),
kept as (
  insert into history (run_id, job_id, uid, class_id, state, wanted, nominal, origin, trigger, job_version, token, failures, losses,
    parent, started_at, ended_at, worker_id, error_type, error, result, attempts, name, spec, payload)
  select run_id, job_id, uid, class_id, final, wanted, nominal, origin, trigger, job_version, token, failed, lost,
    parent, started_at, ended_at, worker_id, error_type, error, result, tries, name, spec, payload from ended)
select run_id, cancel_at is not null as cancelled from ended
