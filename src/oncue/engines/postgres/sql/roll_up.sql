with taken as (
  delete from tally where ctid = any(array(select ctid from tally limit $1 for update skip locked)) returning *),
summed as (
  insert into counters (uid, class_id, what, n) select uid, class_id, what, sum(n) from taken group by 1, 2, 3 order by 1, 2, 3
  on conflict (uid, class_id, what) do update set n = counters.n + excluded.n),
measured as (
  select t.class_id, m.what, t.at, m.bucket, t.n
  from taken t cross join lateral (values (t.what, 0::smallint), ('lag', t.lag), ('run', t.took)) m (what, bucket)
  where t.at is not null and m.bucket is not null),
drawn as (
  insert into series (uid, class_id, what, at, bucket, n)
  select 0, coalesce(class_id, 0), what, at, bucket, sum(n) from measured
  group by grouping sets ((class_id, what, at, bucket), (what, at, bucket)) order by 1, 2, 3, 4, 5
  on conflict (uid, class_id, what, at, bucket) do update set n = series.n + excluded.n),
drawn_by_user as (
  insert into series_hours (uid, class_id, what, at, bucket, n)
  select uid, 0, what, at - at % 3600000000, 0, sum(n) from taken where at is not null group by 1, 3, 4 order by 1, 3, 4
  on conflict (uid, class_id, what, at, bucket) do update set n = series_hours.n + excluded.n)
select count(*) as n from taken
