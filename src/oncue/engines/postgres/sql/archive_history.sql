select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses, job_version,
  0::smallint as held, started_at, ended_at, null::bigint as cancel_at, worker_id, error_type, error, result, attempts, payload, spec,  -- held: 0 no
  null::bytea as progress, parent
from {piece} where (uid, ended_at, run_id) > ($1::int, $2::bigint, $3::uuid) order by uid, ended_at, run_id limit $4
