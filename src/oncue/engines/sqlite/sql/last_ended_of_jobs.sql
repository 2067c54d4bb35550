-- Of each job of ?1 the run that ended last in this partition; and those that are themselves a job of ?2.
select run_id, job_id, uid, class_id, state, wanted, wanted, nominal, trigger, token, failures, losses, job_version, 0, started_at, ended_at, null,
  worker_id, error_type, error, result, attempts, null, spec, null, parent
from (
  select rowid as place from {piece} where run_id in (select unhex(value) from json_each(?2)) and job_id = run_id
  union all
  select (select rowid from {piece} where job_id = unhex(j.value) and job_id <> run_id order by ended_at desc, run_id desc limit 1) from json_each(?1) j) p
cross join {piece} h where h.rowid = p.place
