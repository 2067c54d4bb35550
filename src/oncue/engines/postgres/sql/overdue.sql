-- Held by a lane though its instant has come, with the run of the same job that is in its way.
select w.run_id, w.job_id, w.wanted, w.nominal, w.trigger, coalesce(w.spec, j.spec) as spec, going.run_id as busy
from waiting w
left join jobs j on j.job_id = w.job_id
left join lateral (
  select run_id from running r where r.job_id = w.job_id and r.job_id <> r.run_id
  union all
  select run_id from waiting p where p.job_id = w.job_id and p.job_id <> p.run_id and p.failures + p.losses > 0
  limit 1) going on true
where w.held & 5 = 1 and w.trigger = 0 and w.job_id <> w.run_id and w.wanted <= $2
order by w.wanted, w.run_id limit $1
