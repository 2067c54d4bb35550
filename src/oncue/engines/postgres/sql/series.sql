select at - at % $6::bigint, bucket, sum(n)::bigint
from (
  select at, bucket, n from series where uid = $1 and class_id = any($2::int[]) and what = $3 and at >= $4 and at < $5
  union all
  select at, bucket, n from series_hours where uid = $1 and class_id = any($2::int[]) and what = $3 and at >= $4 and at < $5) s
group by 1, 2 order by 1, 2
