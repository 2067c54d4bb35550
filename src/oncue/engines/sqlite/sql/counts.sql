-- name: count_running
select r.class_id, count(*) from (select run_id from running limit ?2) x cross join runs r on r.run_id = x.run_id
where ?1 is null or r.uid = ?1 group by 1

-- name: oldest_due
select due from runs r
where class_id = ?1 and held = 0 and due <= ?2 and not exists (select 1 from running x where x.run_id = r.run_id)  -- held: 0 no
order by due limit 1

-- name: sum_counts
select what, sum(n) from (
  select what, n from totals where ?1 is null
  union all select what, n from counters where uid = ?1)
group by 1

-- name: count_due
select count(*) from (
  select 1 from runs r where class_id = ?1 and held = 0 and due <= ?2 and not exists (select 1 from running x where x.run_id = r.run_id)  -- held: 0 no
  limit ?3)

-- name: count_due_of_user
-- Of the first due runs of a class, whoever they belong to: the index has all that is read.
select count(*) filter (where mine), min(due) filter (where mine), count(*)
from (select due, uid = ?4 and not exists (select 1 from running x where x.run_id = r.run_id) as mine from (
    select run_id, due, uid from runs where class_id = ?1 and held = 0 and due <= ?2 order by due limit ?3) r)  -- held: 0 no

-- name: count
insert into counters (uid, class_id, what, n) values (?, ?, ?, ?) on conflict do update set n = n + excluded.n

-- name: append
insert into tally (uid, class_id, what, bucket, n, at) values (?, ?, ?, ?, ?, ?)

-- name: fold_range
select min(rowid), max(rowid), count(*) from (select rowid from tally order by rowid limit ?)

-- name: fold
insert into series (uid, class_id, what, at, bucket, n)
select 0, iif(a.everything, 0, t.class_id), t.what, t.at, t.bucket, sum(t.n)
from tally t cross join (select 1 as everything union all select 0) a where t.rowid between ?1 and ?2 group by 2, 3, 4, 5
on conflict do update set n = n + excluded.n

-- name: fold_by_user
insert into series_hours (uid, class_id, what, at, bucket, n)
select uid, 0, what, at - at % 3600000000, 0, sum(n) from tally where rowid between ?1 and ?2 and what not in ('lag', 'run') group by 1, 3, 4
on conflict do update set n = n + excluded.n

-- name: open_classes
select k.class_id, k.task, k.queue, k.priority, k.labels, k.cpu_milli, k.memory_mb, k.slots, o.open
from (
  select class_id, sum(iif(what = 'created', n, -n)) as open from totals
  where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') group by 1) o
cross join classes k on k.class_id = o.class_id
where o.open > 0 order by o.open desc, k.class_id limit ?1

-- name: cluster_state
select
  (select next_at from agenda where next_at < 4611686018427387904 order by next_at limit 1),
  (select wanted from runs where held & 3 > 0 and held & 4 = 0 and wanted <= ?1 order by wanted limit 1),  -- held: 1 lane, 2 gate, 4 paused
  (select count(*) from (
    select 1 from running r where not exists (select 1 from workers w where w.worker_id = r.worker_id) limit ?2)),
  (select min(from_at) from pieces)

-- name: counts_by_task
select k.task, c.what, sum(c.n) from totals c cross join classes k on k.class_id = c.class_id group by 1, 2

-- name: open_findings
select check_name, count(*) as n from findings where cleared_at is null group by 1 order by 1

-- name: turns
select name, next_at, position from turns order by name

-- name: notices_since
-- When the first notice was wanted that nobody has tried to send. Those before it are passed over, up to a bound.
select min(wanted) from (select wanted, token from runs where job_id = ?1 and job_id <> run_id and wanted <= ?2 limit 1000) where token = 0
