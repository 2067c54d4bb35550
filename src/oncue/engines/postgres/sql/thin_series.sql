with old as (
  delete from series where ctid = any(array(select ctid from series where at < $1 order by at limit $2 for update skip locked)) returning *),
kept as (
  insert into series_hours (uid, class_id, what, at, bucket, n)
  select uid, class_id, what, at - at % 3600000000, bucket, sum(n) from old group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
  on conflict (uid, class_id, what, at, bucket) do update set n = series_hours.n + excluded.n)
select count(*) from old
