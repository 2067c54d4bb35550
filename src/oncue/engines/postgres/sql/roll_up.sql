with taken as (
  delete from tally where ctid = any(array(select ctid from tally limit $1 for update skip locked)) returning *),
summed as (
  insert into counters (uid, class_id, what, n) select uid, class_id, what, sum(n) from taken group by 1, 2, 3 order by 1, 2, 3
  on conflict (uid, class_id, what) do update set n = counters.n + excluded.n)
select count(*) as n from taken
