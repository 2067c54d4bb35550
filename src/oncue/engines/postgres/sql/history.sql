-- name: requeue_take
delete from dead where run_id = any($1::uuid[]) returning run_id, uid, class_id

-- name: lock_ids
-- Callers that add the same run at once come one after the other; the order keeps two batches from waiting for each other.
select pg_advisory_xact_lock(id) from (select unnest($1::bigint[]) as id order by 1) sorted

-- name: discard
with gone as (
  delete from dead where run_id = any($1::uuid[]) and ($2::int is null or uid = $2) returning run_id, uid, class_id),
counted as (insert into tally (uid, class_id, what, n) select uid, class_id, 'discarded', count(*) from gone group by uid, class_id)
select run_id from gone

-- name: append_log
with added as (
  insert into run_logs (run_id, number, text, at)
  select $1, $2, $3, $4 where not exists (select from run_logs where run_id = $1 and number = $2) and (
    substr($3::bytea, 1, 1) = '\x01' or length($3::bytea) + (
      select coalesce(sum(length(text)), 0) from run_logs where run_id = $1 and substr(text, 1, 1) <> '\x01') <= $5::bigint)
  returning number)
select exists (select from added) or exists (select from run_logs where run_id = $1 and number = $2)

-- name: totals
select 0 as uid, class_id, what, sum(n)::bigint as n
from (select class_id, what, n from totals union all select class_id, what, n from tally) c group by 1, 2, 3 order by 1, 2, 3

-- name: counters
select uid, class_id, what, sum(n)::bigint as n from (select uid, class_id, what, n from counters union all select uid, class_id, what, n from tally) c
where uid = $1 group by 1, 2, 3 order by 1, 2, 3

-- name: open_letters
select uid, sum(case what when 'dead' then n else -n end)::bigint as n from counters
where what in ('dead', 'requeued', 'discarded') and uid <> 0 group by uid having sum(case what when 'dead' then n else -n end) >= $1::bigint

-- name: sizes
-- Partitions count as the table they belong to; indexes and what is stored apart as their table.
select coalesce(p.relname, c.relname)::text as name, sum(pg_total_relation_size(c.oid))::bigint as bytes
from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
where c.relkind = 'r' and c.relnamespace = (select relnamespace from pg_class where oid = to_regclass('waiting'))
  and coalesce(p.relname, c.relname) = any($1::text[])
group by 1

-- name: series
select at - at % $6::bigint, bucket, sum(n)::bigint
from (
  select at, bucket, n from series where uid = $1 and class_id = any($2::int[]) and what = $3 and at >= $4 and at < $5
  union all
  select at, bucket, n from series_hours where uid = $1 and class_id = any($2::int[]) and what = $3 and at >= $4 and at < $5) s
group by 1, 2 order by 1, 2

-- name: series_by
-- The lines of each class by its own stretch of the index: offset 0 keeps the planner from joining whole tables.
select c.number, s.at - s.at % $6::bigint, s.bucket, sum(s.n)::bigint
from unnest($1::int[], $2::int[]) c(class_id, number) cross join lateral (
  (select at, bucket, n from series where uid = 0 and class_id = c.class_id and what = $3 and at >= $4 and at < $5 offset 0)
  union all
  (select at, bucket, n from series_hours where uid = 0 and class_id = c.class_id and what = $3 and at >= $4 and at < $5 offset 0)) s
group by 1, 2, 3 order by 1, 2, 3

-- name: find_run_view
select * from waiting_runs where run_id = $1
union all select * from running_runs where run_id = $1
union all select * from dead_runs where run_id = $1
union all (select * from ended_runs where run_id = $1 limit 1)
limit 1

-- name: standing_in_lane
-- The runs that hold a lane or gate, active ones first, and how many in line are before this one. Paused runs do not count.
select
  (select h.run_id from (
    (select run_id, 0 as part, 0::bigint as wanted from running where {lane} = $1 order by claimed_at, run_id limit 1)
    union all
    (select run_id, case when failures + losses > 0 then 1 else 2 end, wanted from waiting
     where {lane} = $1 and held & {bit} = 0 and run_id <> $3)) h
   order by h.part, h.wanted, h.run_id limit 1) as holder,
  (select count(*) from (
    select from waiting where {lane} = $1 and held & {bit} = {bit} and held & {blocked} = 0 and (wanted, run_id) < ($2::bigint, $3::uuid)
    order by wanted, run_id limit 10000) l)::int as place

-- name: standing_among_due
select count(*)::int as place from (
  select from waiting where class_id = $1 and held = 0 and (due, run_id) < ($2::bigint, $3::uuid) order by due, run_id limit 10000) p  -- held: 0 no
