-- One statement, so that counters and rows are of one moment.
select
  (select coalesce(sum(case what when 'created' then n else -n end), 0) from (
    select what, n from totals union all select what, n from tally) c
   where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn'))::bigint as counted,
  (select count(*) from ((select from waiting limit $1) union all (select from running limit $1)) o) as stored
