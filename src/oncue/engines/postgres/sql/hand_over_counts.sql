insert into counters (uid, class_id, what, n)
select k.uid, s.class_id, k.what, sum(k.n) from counters k
  join classes g on g.class_id = k.class_id
  join classes s on s.task = g.task and s.queue = $2 and s.class_id = any($3::int[])
where k.class_id = any($1::int[]) group by 1, 2, 3 order by 1, 2, 3
on conflict (uid, class_id, what) do update set n = counters.n + excluded.n
