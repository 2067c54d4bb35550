select what, sum(n) from (
  select what, n from totals where ?1 is null
  union all select what, n from counters where uid = ?1)
group by 1
