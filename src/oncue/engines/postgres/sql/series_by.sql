-- The lines of each class by its own stretch of the index: offset 0 keeps the planner from joining whole tables.
select c.number, s.at - s.at % $6::bigint, s.bucket, sum(s.n)::bigint
from unnest($1::int[], $2::int[]) c(class_id, number) cross join lateral (
  (select at, bucket, n from series where uid = 0 and class_id = c.class_id and what = $3 and at >= $4 and at < $5 offset 0)
  union all
  (select at, bucket, n from series_hours where uid = 0 and class_id = c.class_id and what = $3 and at >= $4 and at < $5 offset 0)) s
group by 1, 2, 3 order by 1, 2, 3
