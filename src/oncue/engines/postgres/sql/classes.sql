-- name: classes
select class_id, task, queue, priority, labels, cpu_milli, memory_mb, slots from classes where class_id > $1 order by class_id limit $2

-- name: make_classes
insert into classes (task, queue, priority, labels, cpu_milli, memory_mb, slots, made_by)
select task, queue, priority, array(select jsonb_array_elements_text(a.labels::jsonb)), cpu_milli, memory_mb, slots, made_by
from unnest($1::text[], $2::text[], $3::smallint[], $4::text[], $5::int[], $6::int[], $7::int[], $8::int[])
  a(task, queue, priority, labels, cpu_milli, memory_mb, slots, made_by)
on conflict (task, queue, priority, labels, cpu_milli, memory_mb, slots) do nothing

-- name: look_at_classes
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

-- name: hand_over_counts
insert into counters (uid, class_id, what, n)
select k.uid, s.class_id, k.what, sum(k.n) from counters k
  join classes g on g.class_id = k.class_id
  join classes s on s.task = g.task and s.queue = $2 and s.class_id = any($3::int[])
where k.class_id = any($1::int[]) group by 1, 2, 3 order by 1, 2, 3
on conflict (uid, class_id, what) do update set n = counters.n + excluded.n

-- name: find_classes
select c.class_id, c.used_at, a.n
from unnest($1::text[], $2::text[], $3::smallint[], $4::text[], $5::int[], $6::int[], $7::int[])
  with ordinality a(task, queue, priority, labels, cpu_milli, memory_mb, slots, n)
  join classes c on c.task = a.task and c.queue = a.queue and c.priority = a.priority
    and c.labels = array(select jsonb_array_elements_text(a.labels::jsonb))
    and c.cpu_milli = a.cpu_milli and c.memory_mb = a.memory_mb and c.slots = a.slots
