insert into series_hours (uid, class_id, what, at, bucket, n)
select uid, class_id, what, at - at % 3600000000, bucket, sum(n) from series where at < ? group by 1, 2, 3, 4, 5
on conflict do update set n = n + excluded.n
