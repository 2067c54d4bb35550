select r.* from unnest($1::uuid[]) i(run_id) cross join lateral (
  select * from waiting_runs where run_id = i.run_id
  union all select * from running_runs where run_id = i.run_id
  union all (select * from ended_runs where run_id = i.run_id limit 1)
  union all select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0::smallint,  -- held: 0 no
    started_at, ended_at, null, worker_id, error_type, error, result, attempts, null, null, null, parent from dead where run_id = i.run_id
  limit 1) r
where $2::int is null or uid = $2
