-- Runs held by a lane though their instant has come.
select w.run_id, w.job_id, w.wanted, w.nominal, w.trigger, coalesce(w.spec, j.spec), w.lane
from runs w left join jobs j on j.job_id = w.job_id
where w.held & 5 = 1 and w.trigger = 0 and w.job_id <> w.run_id and w.wanted <= ?1  -- trigger: 0 schedule; held: 1 lane, 4 paused
order by w.wanted, w.run_id limit ?2
