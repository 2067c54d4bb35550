-- The columns are those of dead_runs, which has no fingerprint; ordered by the whole of the index.
select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses, job_version, 0::smallint as held,  -- held: 0 no
  started_at, ended_at, null::bigint as cancel_at, worker_id, error_type, error, result, attempts, payload, spec, null::bytea as progress, parent
from dead where (fingerprint, ended_at, run_id) < ($4::bigint, $1::bigint, $2::uuid) and fingerprint >= $4
order by fingerprint desc, ended_at desc, run_id desc limit $3
