insert into series (uid, class_id, what, at, bucket, n)
select 0, iif(a.everything, 0, t.class_id), t.what, t.at, t.bucket, sum(t.n)
from tally t cross join (select 1 as everything union all select 0) a where t.rowid between ?1 and ?2 group by 2, 3, 4, 5
on conflict do update set n = n + excluded.n
