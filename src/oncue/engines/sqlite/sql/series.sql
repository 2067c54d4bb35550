select at - at % ?6, bucket, sum(n)
from (
  select at, bucket, n from series where uid = ?1 and class_id in (select value from carray(?2)) and what = ?3 and at >= ?4 and at < ?5
  union all
  select at, bucket, n from series_hours where uid = ?1 and class_id in (select value from carray(?2)) and what = ?3 and at >= ?4 and at < ?5)
group by 1, 2 order by 1, 2
