insert into counters (uid, class_id, what, n)
select k.uid, s.class_id, k.what, sum(k.n) from carray(?1) gone
  cross join counters k on k.class_id = gone.value
  join classes g on g.class_id = k.class_id
  join classes s on s.task = g.task and s.queue = ?2 and s.class_id in (select value from carray(?3))
where true group by 1, 2, 3
on conflict (uid, class_id, what) do update set n = n + excluded.n
