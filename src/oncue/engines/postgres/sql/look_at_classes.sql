-- One class after the other by its own indexes: the planner would read all jobs and dead letters for an `exists`. The counts
-- include those that are not rolled up yet.
select c.class_id, c.task, c.queue, c.used_at, c.counted,
  (coalesce(k.n, 0) + coalesce(t.n, 0))::bigint as counts, (coalesce(k.open, 0) + coalesce(t.open, 0))::bigint as open,
  t.class_id is not null or (select job_id from jobs where class_id = c.class_id limit 1) is not null
    or (select run_id from dead where class_id = c.class_id limit 1) is not null as named
from (select * from classes where class_id > $1 order by class_id limit $2) c
  cross join lateral (
    select sum(n) as n, sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end) as open
    from counters where class_id = c.class_id) k
  left join (
    select class_id, sum(n) as n, sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end) as open
    from tally group by class_id) t on t.class_id = c.class_id
order by c.class_id
