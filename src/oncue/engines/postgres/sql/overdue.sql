-- Runs held by a lane though their instant has come, with the run of the same job that the lane has admitted: the active one, or
-- else the one to start. Found by the lane, which has one member inside: by the job this would read all its waiting runs.
select w.run_id, w.job_id, w.wanted, w.nominal, w.trigger, coalesce(w.spec, j.spec) as spec, inside.run_id as inside, inside.begun,
  inside.wanted as inside_wanted, inside.nominal as inside_nominal, inside.trigger as inside_trigger
from waiting w
left join jobs j on j.job_id = w.job_id
left join lateral (
  select r.run_id, true as begun, r.wanted, r.nominal, r.trigger from running r where r.lane = w.lane and r.job_id = w.job_id
  union all
  select p.run_id, p.token > 0 or p.failures + p.losses > 0, p.wanted, p.nominal, p.trigger from waiting p
  where p.lane = w.lane and p.held & 1 = 0 and p.job_id = w.job_id  -- held: 1 lane
  order by begun desc limit 1) inside on true
where w.held & 5 = 1 and w.trigger = 0 and w.job_id <> w.run_id and w.wanted <= $2  -- trigger: 0 schedule; held: 1 lane, 4 paused
order by w.wanted, w.run_id limit $1
