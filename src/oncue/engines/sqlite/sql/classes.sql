-- name: classes
select class_id, task, queue, priority, labels, cpu_milli, memory_mb, slots from classes where class_id > ?1 order by class_id limit ?2

-- name: make_class
insert into classes (task, queue, priority, labels, cpu_milli, memory_mb, slots, made_by) values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: look_at_classes
-- The newest class always stays: otherwise its number would be given again.
select c.class_id, c.task, c.queue, c.used_at, c.counted,
  coalesce((select sum(n) from counters k where k.class_id = c.class_id), 0),
  coalesce((select sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end)
    from counters k where k.class_id = c.class_id), 0),
  exists (select 1 from jobs j where j.class_id = c.class_id) or exists (select 1 from dead d where d.class_id = c.class_id)
    or c.class_id = (select max(class_id) from classes)
from classes c where c.class_id > ?1 order by c.class_id limit ?2

-- name: due_classes
select asked.value from carray(?1) asked
where exists (select 1 from runs where class_id = asked.value and held = 0 and due > ?2 and due <= ?3)  -- held: 0 no

-- name: busy_class
select class_id from runs where held = 0 and class_id >= ? order by class_id limit 1  -- held: 0 no

-- name: hand_over_counts
insert into counters (uid, class_id, what, n)
select k.uid, s.class_id, k.what, sum(k.n) from carray(?1) gone
  cross join counters k on k.class_id = gone.value
  join classes g on g.class_id = k.class_id
  join classes s on s.task = g.task and s.queue = ?2 and s.class_id in (select value from carray(?3))
where true group by 1, 2, 3
on conflict (uid, class_id, what) do update set n = n + excluded.n

-- name: find_class
select class_id, used_at from classes
where task = ? and queue = ? and priority = ? and labels = ? and cpu_milli = ? and memory_mb = ? and slots = ?
