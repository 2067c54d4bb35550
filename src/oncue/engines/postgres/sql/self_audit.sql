-- name: record_findings
insert into findings as f (check_name, object_id, words, first_seen, seen_at)
select t.check_name, t.object_id, t.words, $4, $4 from unnest($1::text[], $2::text[], $3::text[]) t(check_name, object_id, words)
on conflict (check_name, object_id) do update set words = excluded.words, seen_at = excluded.seen_at,
  first_seen = case when f.cleared_at is null then f.first_seen else excluded.first_seen end, cleared_at = null
returning check_name, object_id, words, first_seen, seen_at, cleared_at

-- name: forget_findings
delete from findings where (check_name, object_id) in (
  select check_name, object_id from findings order by cleared_at is not null, seen_at desc, check_name, object_id offset $1)

-- name: clear_findings
update findings set cleared_at = $3 where check_name = $1 and object_id = any($2::text[]) and cleared_at is null
returning check_name, object_id, words, first_seen, seen_at, cleared_at

-- name: findings
select check_name, object_id, words, first_seen, seen_at, cleared_at from findings

-- name: audited_cursors
select a.job_id, j.status, j.spec, j.created_at, j.updated_at, a.next_at, a.floor, a.planned, a.rules
from agenda a cross join lateral (select status, spec, created_at, updated_at from jobs where job_id = a.job_id limit 1) j
where a.job_id > $1 order by a.job_id limit $2

-- name: existing_runs_since
-- As existing_runs, but only the partitions of history since an instant are searched.
select i.run_id from unnest($1::uuid[]) i(run_id) cross join lateral (
  (select from waiting where run_id = i.run_id)
  union all (select from running where run_id = i.run_id)
  union all (select from dead where run_id = i.run_id)
  union all (select from history where run_id = i.run_id and ended_at >= $2)
  limit 1) found

-- name: stretches
select * from ledger where job_id = $1 and last_at >= $2 and first_at <= $3 order by last_at, entry_id limit $4

-- name: longest_held
-- A run waits for its lane first, then for its gate: whether that one has admitted anybody, by one probe each.
select w.run_id, w.job_id, w.wanted, w.held & 1 > 0 as by_lane,  -- held: 1 lane
  case when w.held & 1 > 0 then  -- held: 1 lane
    (select run_id from running r where r.lane = w.lane limit 1) is not null
    or (select run_id from waiting p where p.lane = w.lane and p.held & 1 = 0 limit 1) is not null  -- held: 1 lane
  else
    (select run_id from running r where r.gate = w.gate limit 1) is not null
    or (select run_id from waiting p where p.gate = w.gate and p.held & 2 = 0 limit 1) is not null  -- held: 2 gate
  end as admitted
from waiting w where w.held & 3 > 0 and w.held & 4 = 0 and w.wanted <= $1  -- held: 1 lane, 2 gate, 4 paused
order by w.wanted, w.run_id limit $2

-- name: audited_orphans
select run_id, worker_id, claimed_at from running r
where claimed_at < $1 and not exists (select from workers w where w.worker_id = r.worker_id) order by run_id limit $2

-- name: long_running
-- In the order of their key, from where the last page ended: what runs is not walked as a whole.
select run_id, worker_id, claimed_at, cancel_at, job_id, job_version, spec from running r
where run_id > $1 and claimed_at < $2 and exists (select from workers w where w.worker_id = r.worker_id) order by run_id limit $3

-- name: unexpired
select run_id, expires_at from waiting where expires_at < $1 and token = 0 order by expires_at limit 1

-- name: sums
-- One statement, so that counters and rows are of one moment.
select
  (select coalesce(sum(case what when 'created' then n else -n end), 0) from (
    select what, n from totals union all select what, n from tally) c
   where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn'))::bigint as counted,
  (select count(*) from ((select from waiting limit $1) union all (select from running limit $1)) o) as stored
