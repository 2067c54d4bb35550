-- name: rules_at_work
-- Writes now and then which rules we use, without waiting for a scheduler that writes the same; returns the newest newer ones.
with again as (
  update zone_rules set seen_at = $2
  where version in (select version from zone_rules where version = $1 and abs(seen_at - $2) > $3 for update skip locked)),
first as (
  insert into zone_rules select $1, $2 where not exists (select from zone_rules where version = $1) on conflict do nothing)
select max(version) from zone_rules where version > $1 and abs(seen_at - $2) <= $4

-- name: plan_take
-- Due jobs, then those whose cursor other rules computed. These in the order of their index: there are hardly ever any, and a
-- plan that expects a third of the table reads all of it to find none.
with due as (
  select job_id from agenda where next_at >= $5 and next_at <= $1 and (rules is null or $4)
  order by next_at, job_id limit $2 for update skip locked),
older as (
  select job_id from agenda where $4 and rules < $3 and next_at > $1 and next_at < 4611686018427387904
  order by rules, job_id limit $2 - (select count(*) from due) for update skip locked),
newer as (
  select job_id from agenda where $4 and rules > $3 and next_at > $1 and next_at < 4611686018427387904
  order by rules, job_id limit $2 - (select count(*) from due) - (select count(*) from older) for update skip locked)
select job_id from due union all select job_id from older union all select job_id from newer

-- name: plan_read
-- After the cursors are locked, not with them: a join would pair a cursor that an edit wrote with the definition before that edit.
select a.job_id, a.next_at, a.floor, a.planned, a.rules, j.uid, j.version, j.class_id, j.spec
from agenda a join jobs j on j.job_id = a.job_id
where a.job_id = any($1::uuid[]) and j.job_id = any($1::uuid[]) and j.status = 0  -- status: 0 active
order by a.next_at, a.job_id

-- name: overdue
-- Runs held by a lane though their instant has come, with the run of the same job that the lane has admitted: the active one, or
-- else the one to start. Found by the lane, which has one member inside: by the job this would read all its waiting runs.
select w.run_id, w.job_id, w.wanted, w.nominal, w.trigger, coalesce(w.spec, j.spec) as spec, inside.run_id as inside, inside.begun,
  inside.wanted as inside_wanted, inside.nominal as inside_nominal, inside.trigger as inside_trigger
from waiting w
left join jobs j on j.job_id = w.job_id
left join lateral (
  select r.run_id, true as begun, r.wanted, r.nominal, r.trigger from running r where r.lane = w.lane and r.job_id = w.job_id
  union all
  select p.run_id, p.token > 0 or p.failures + p.losses > 0, p.wanted, p.nominal, p.trigger from waiting p
  where p.lane = w.lane and p.held & 1 = 0 and p.job_id = w.job_id  -- held: 1 lane
  order by begun desc limit 1) inside on true
where w.held & 5 = 1 and w.trigger = 0 and w.job_id <> w.run_id and w.wanted <= $2  -- trigger: 0 schedule; held: 1 lane, 4 paused
order by w.wanted, w.run_id limit $1

-- name: expired
select w.run_id, w.job_id, w.wanted, w.lane, w.gate, c.task
from (select * from waiting where expires_at < $1 and token = 0 order by expires_at limit $2) w join classes c using (class_id)
order by w.expires_at

-- name: next_grant
select coalesce(min(next_at), $1) as next_at, coalesce(min(check_at), $1) as check_at from meters

-- name: expired_runs
-- In the shape of a claim.
select run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, job_version, failures, losses,
  lane, gate, attempts, checkpoint, spec, payload, spec is not null, parent, updated_at, 0::bigint, null::bigint
from waiting where run_id = any($1::uuid[])

-- name: plan_finish
update jobs set status = 2, updated_at = $2 where job_id = any($1::uuid[]) and status = 0  -- status: 0 active, 2 finished

-- name: plan_advance
update agenda a set next_at = t.next_at, floor = greatest(a.floor, t.floor), planned = t.planned, rules = t.rules
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::int[], $5::text[]) t(job_id, next_at, floor, planned, rules) where a.job_id = t.job_id

-- name: withdraw_held
-- The runs in $2 are not held but admitted: they are withdrawn unless a worker has claimed them.
delete from waiting where run_id = any($1::uuid[]) and failures + losses = 0 and (held & 1 = 1 or token = 0 and run_id = any($2::uuid[]))  -- held: 1 lane
returning run_id, job_id, uid, class_id, lane, gate
