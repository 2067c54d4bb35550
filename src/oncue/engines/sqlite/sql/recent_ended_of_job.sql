-- The job's own run, if it is a one-shot, and its others, each by an index.
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
from {piece} where run_id = ?1 and ended_at >= ?2
union all
select * from (
  select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
  from {piece} where job_id = ?1 and job_id <> run_id and ended_at >= ?2 order by ended_at desc, run_id desc limit ?3)
limit ?3
