-- name: record_finding
insert into findings (check_name, object_id, words, first_seen, seen_at) values (?1, ?2, ?3, ?4, ?4)
on conflict (check_name, object_id) do update set words = excluded.words, seen_at = excluded.seen_at,
  first_seen = iif(cleared_at is null, first_seen, excluded.first_seen), cleared_at = null
returning check_name, object_id, words, first_seen, seen_at, cleared_at

-- name: forget_findings
delete from findings where (check_name, object_id) in (
  select check_name, object_id from findings order by cleared_at is not null, seen_at desc, check_name, object_id limit -1 offset ?1)

-- name: clear_finding
update findings set cleared_at = ?3 where check_name = ?1 and object_id = ?2 and cleared_at is null
returning check_name, object_id, words, first_seen, seen_at, cleared_at

-- name: findings
select check_name, object_id, words, first_seen, seen_at, cleared_at from findings

-- name: audited_cursors
select a.job_id, j.status, j.spec, j.created_at, j.updated_at, a.next_at, a.floor, a.planned, a.rules
from agenda a cross join jobs j on j.job_id = a.job_id where a.job_id > ?1 order by a.job_id limit ?2

-- name: stretches
select job_id, first_at, last_at, n, outcome, reason, run_id from ledger
where job_id = ?1 and last_at >= ?2 and first_at <= ?3 order by last_at, entry_id limit ?4

-- name: longest_held
-- A run waits for its lane first, then for its gate: whether that one has admitted anybody, by one probe each.
select w.run_id, w.job_id, w.wanted, w.held & 1 > 0,  -- held: 1 lane
  iif(w.held & 1 > 0,  -- held: 1 lane
    exists (select 1 from runs p where p.lane = w.lane and p.held & 5 in (0, 4)),  -- held: 1 lane, 4 paused
    exists (select 1 from runs p where p.gate = w.gate and p.held & 7 in (0, 4)))  -- held: 1 lane, 2 gate, 4 paused
from runs w where w.held & 3 > 0 and w.held & 4 = 0 and w.wanted <= ?1  -- held: 1 lane, 2 gate, 4 paused
order by w.wanted, w.run_id limit ?2

-- name: audited_orphans
select run_id, worker_id, claimed_at from running r
where claimed_at < ?1 and not exists (select 1 from workers w where w.worker_id = r.worker_id) order by run_id limit ?2

-- name: long_running
select x.run_id, x.worker_id, x.claimed_at, x.cancel_at, coalesce(r.spec, j.spec, v.spec)
from running x cross join runs r on r.run_id = x.run_id
left join jobs j on r.spec is null and j.job_id = r.job_id and j.version = r.job_version
left join job_versions v on r.spec is null and v.job_id = r.job_id and v.version = r.job_version
where x.run_id > ?1 and x.claimed_at < ?2 and exists (select 1 from workers w where w.worker_id = x.worker_id)
order by x.run_id limit ?3

-- name: unexpired
select run_id, expires_at from runs r
where expires_at < ?1 and token = 0 and not exists (select 1 from running x where x.run_id = r.run_id) order by expires_at limit 1

-- name: sums
select
  (select coalesce(sum(iif(what = 'created', n, -n)), 0) from totals
   where what in ('created', 'succeeded', 'dead', 'cancelled', 'expired', 'withdrawn')),
  (select count(*) from (select 1 from runs limit ?1))
