select
  (select coalesce(sum(iif(what = 'created', n, -n)), 0) from totals
   where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn')),
  (select count(*) from (select 1 from runs limit ?1))
