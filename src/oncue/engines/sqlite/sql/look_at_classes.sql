-- The newest class always stays: otherwise its number would be given again.
select c.class_id, c.task, c.queue, c.used_at, c.counted,
  coalesce((select sum(n) from counters k where k.class_id = c.class_id), 0),
  coalesce((select sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end)
    from counters k where k.class_id = c.class_id), 0),
  exists (select 1 from jobs j where j.class_id = c.class_id) or exists (select 1 from dead d where d.class_id = c.class_id)
    or c.class_id = (select max(class_id) from classes)
from classes c where c.class_id > ?1 order by c.class_id limit ?2
