-- name: expired
select r.run_id, r.job_id, (select task from classes c where c.class_id = r.class_id), r.wanted from runs r
where expires_at < ?1 and token = 0 and not exists (select 1 from running x where x.run_id = r.run_id) order by expires_at limit ?2

-- name: expired_runs
-- In the shape of a claim.
select r.run_id, r.token, r.job_id, r.uid, r.class_id, r.due, r.wanted, r.nominal, r.origin, r.trigger, r.job_version,
  r.failures, r.losses, r.lane, r.gate, r.attempts, r.checkpoint,
  coalesce(r.spec, j.spec, v.spec), iif(r.spec is not null, r.payload, coalesce(j.payload, v.payload)),
  r.spec is not null, r.parent, r.updated_at, 0, null
from carray(?1) asked cross join runs r on r.run_id = asked.value
left join jobs j on r.spec is null and j.job_id = r.job_id and j.version = r.job_version
left join job_versions v on r.spec is null and v.job_id = r.job_id and v.version = r.job_version

-- name: next_grant
select coalesce((select min(next_at) from meters), ?1), coalesce((select min(check_at) from meters), ?1)

-- name: say_rules
insert into zone_rules (version, seen_at) values (?1, ?2)
on conflict do update set seen_at = excluded.seen_at where abs(seen_at - excluded.seen_at) > ?3

-- name: newer_rules
select max(version) from zone_rules where version > ?1 and abs(seen_at - ?2) <= ?3

-- name: plan_take
select j.job_id, j.uid, j.version, j.class_id, j.spec, a.next_at, a.floor, a.planned, a.rules
from agenda a cross join jobs j on j.job_id = a.job_id
where a.next_at >= ?1 and a.next_at <= ?2 and j.status = 0 and (a.rules is null or ?4)  -- status: 0 active
order by a.next_at, a.job_id limit ?3

-- name: plan_take_others
-- Jobs that are not due, but whose cursor other rules computed. There are hardly ever any: the index says so at once.
with others as materialized (
  select * from (
    select job_id from agenda indexed by agenda_rules where rules < ?3 and next_at > ?1 and next_at < 4611686018427387904
    order by rules, job_id limit ?2)
  union all
  select * from (
    select job_id from agenda indexed by agenda_rules where rules > ?3 and next_at > ?1 and next_at < 4611686018427387904
    order by rules, job_id limit ?2)
  limit ?2)
select j.job_id, j.uid, j.version, j.class_id, j.spec, a.next_at, a.floor, a.planned, a.rules
from others o cross join agenda a on a.job_id = o.job_id cross join jobs j on j.job_id = o.job_id where j.status = 0  -- status: 0 active

-- name: plan_advance
update agenda set next_at = ?1, floor = max(floor, ?2), planned = ?3, rules = ?4 where job_id = ?5

-- name: plan_finish
update jobs set status = 2, updated_at = ?1 where job_id = ?2 and status = 0  -- status: 0 active, 2 finished

-- name: still_held
-- The runs in ?2 are not held but admitted: they are withdrawn unless a worker has claimed them.
select r.run_id from carray(?1) asked cross join runs r on r.run_id = asked.value
where r.failures + r.losses = 0 and (r.held & 1 = 1  -- held: 1 lane
  or r.token = 0 and r.run_id in (select value from carray(?2)) and not exists (select 1 from running x where x.run_id = r.run_id))

-- name: overdue
-- Runs held by a lane though their instant has come.
select w.run_id, w.job_id, w.wanted, w.nominal, w.trigger, coalesce(w.spec, j.spec), w.lane
from runs w left join jobs j on j.job_id = w.job_id
where w.held & 5 = 1 and w.trigger = 0 and w.job_id <> w.run_id and w.wanted <= ?1  -- trigger: 0 schedule; held: 1 lane, 4 paused
order by w.wanted, w.run_id limit ?2
