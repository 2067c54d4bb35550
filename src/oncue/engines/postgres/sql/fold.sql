with taken as (delete from tally returning *)
insert into counters (uid, class_id, what, n) select uid, class_id, what, sum(n) from taken group by 1, 2, 3 order by 1, 2, 3
on conflict (uid, class_id, what) do update set n = counters.n + excluded.n
