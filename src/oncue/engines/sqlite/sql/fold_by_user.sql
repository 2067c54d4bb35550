insert into series_hours (uid, class_id, what, at, bucket, n)
select uid, 0, what, at - at % 3600000000, 0, sum(n) from tally where rowid between ?1 and ?2 and what not in ('lag', 'run') group by 1, 3, 4
on conflict do update set n = n + excluded.n
