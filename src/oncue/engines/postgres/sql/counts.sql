-- name: count_running
-- `running` is as small as the fleet, and has no index by class or user: it would cost every claim.
select class_id, count(*) as n from (select class_id, uid from running limit $2) r where $1::int is null or uid = $1 group by 1

-- name: count_due_of_user
-- In the order of the instants they were wanted at. The user is a set with one element: see list_live.
select class_id, count(*) filter (where held = 0 and due <= $2) as n, min(due) filter (where held = 0 and due <= $2) as oldest, count(*) as looked  -- held: 0 no
from unnest(array[$1::int]) u(uid) cross join lateral (
  select class_id, held, due from waiting where uid = any(array[u.uid]) and wanted <= $2
  order by uid, wanted, run_id limit $3) w
group by 1

-- name: sum_counts
select what, sum(n)::bigint as n from (
  select what, n from totals where $1::int is null
  union all select what, n from counters where uid = $1
  union all select what, n from tally where $1::int is null or uid = $1) c
group by 1

-- name: count_due
-- In the order in which the classes are given, until the limit is reached: what is beyond is not read.
select d.class_id, count(*) as n from (
  select c.class_id from unnest($1::int[]) c(class_id) cross join lateral (
    select from waiting where class_id = c.class_id and held = 0 and due <= $2 order by due limit $3) w  -- held: 0 no
  limit $3) d
group by 1

-- name: oldest_due
select c.class_id, w.due from unnest($1::int[]) c(class_id) cross join lateral (
  select due from waiting where class_id = c.class_id and held = 0 and due <= $2 order by due limit 1) w  -- held: 0 no

-- name: count
insert into tally (uid, class_id, what, n, at)
select *, $5::bigint from unnest($1::int[], $2::int[], $3::text[], $4::bigint[])

-- name: count_attempts
insert into tally (uid, class_id, what, n, at, lag, took)
select uid, class_id, $3::text, n, $5::bigint, lag, took
from unnest($1::int[], $2::int[], $4::bigint[], $6::smallint[], $7::smallint[]) t (uid, class_id, n, lag, took)

-- name: open_classes
select k.class_id, k.task, k.queue, k.priority, k.labels, k.cpu_milli, k.memory_mb, k.slots, o.open
from (
  select class_id, sum(case what when 'created' then n else -n end)::bigint as open
  from (select class_id, what, n from totals union all select class_id, what, n from tally) c
  where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn')
  group by 1 having sum(case what when 'created' then n else -n end) > 0 order by 2 desc, 1 limit $1) o
cross join lateral (select * from classes where class_id = o.class_id limit 1) k
order by o.open desc, k.class_id

-- name: cluster_state
select
  (select next_at from agenda where next_at < 4611686018427387904 order by next_at limit 1) as next_plan,
  (select wanted from waiting where held & 3 > 0 and held & 4 = 0 and wanted <= $1 order by wanted limit 1) as held_since,  -- held: 1 lane, 2 gate, 4 paused
  (select count(*) from (
    select from running r where not exists (select from workers w where w.worker_id = r.worker_id) limit $2) o) as orphans,
  (select min(from_at) from pieces where parent = 'history') as history_from

-- name: counts_by_task
-- By class first, then one probe for each: joined in any other way the planner may compare every count with every class.
select k.task, c.what, sum(c.n)::bigint as n
from (
  select class_id, what, sum(n) as n
  from (select class_id, what, n from totals union all select class_id, what, n from tally) a group by 1, 2) c
cross join lateral (select task from classes where class_id = c.class_id limit 1) k
group by 1, 2

-- name: open_findings
select check_name, count(*) as n from findings where cleared_at is null group by 1 order by 1

-- name: turns
select name, next_at, position from turns order by name

-- name: notices_since
-- When the first notice was wanted that nobody has tried to send. Those tried before it are passed over, up to a bound.
select min(wanted) filter (where token = 0) as since from (
  select wanted, token from waiting where job_id = $1 and job_id <> run_id and wanted <= $2 order by wanted limit 1000) w
