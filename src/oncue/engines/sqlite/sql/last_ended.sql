-- Of each job of ?1 the run that is the job, and the last ?2 others, in this partition; newest first. Of the attempts only the
-- beginning, which has the first start.
select job_id, run_id, state, wanted, nominal, started_at, ended_at, substr(attempts, 1, 120)
from (
  select rowid as place from {piece} where run_id in (select unhex(value) from json_each(?1)) and job_id = run_id
  union all
  select r.rowid from json_each(?1) j cross join {piece} r on r.rowid in (
    select rowid from {piece} where job_id = unhex(j.value) and job_id <> run_id order by ended_at desc, run_id desc limit ?2)) p
cross join {piece} h where h.rowid = p.place
order by ended_at desc, run_id desc
