select what, sum(n)::bigint as n from (
  select what, n from totals where $1::int is null
  union all select what, n from counters where uid = $1
  union all select what, n from tally where $1::int is null or uid = $1) c
group by 1
