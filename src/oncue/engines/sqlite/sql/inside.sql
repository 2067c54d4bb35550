-- The run that each lane has admitted, and whether it has begun: active ones come last.
select l.value, r.job_id, r.run_id, r.wanted, r.nominal, r.trigger, x.run_id is not null or r.token > 0 or r.failures + r.losses > 0 as begun
from carray(?1) l cross join runs r on r.lane = l.value and r.held & 5 in (0, 4) left join running x on x.run_id = r.run_id  -- held: 1 lane, 4 paused
order by begun
