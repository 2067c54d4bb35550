-- Held by a lane though its instant has come, with the run of the same job that is in its way.
select w.run_id, w.job_id, w.wanted, w.nominal, w.trigger, coalesce(w.spec, j.spec), (
  select p.run_id from runs p left join running x on x.run_id = p.run_id
  where p.job_id = w.job_id and p.job_id <> p.run_id and (x.run_id is not null or p.failures + p.losses > 0)
  order by x.run_id is null limit 1)
from runs w left join jobs j on j.job_id = w.job_id
where w.held & 5 = 1 and w.trigger = 0 and w.job_id <> w.run_id and w.wanted <= ?1
order by w.wanted, w.run_id limit ?2
