-- name: tend_gates
-- The gates of the runs that tending these lanes may admit, once $2 of the first have left, or send back.
select distinct m.gate from unnest($1::bigint[]) l(lane) cross join lateral (
  (select w.gate from waiting w where w.lane = l.lane and w.held & 1 = 1 and w.held & 4 = 0  -- held: 1 lane, 4 paused
   order by w.wanted, w.run_id limit $2)
  union all
  (select w.gate from waiting w where w.lane = l.lane and w.held & 1 = 0)) m  -- held: 1 lane
where m.gate is not null

-- name: note_dropped
insert into notices_dropped as d (uid, n, reported) select uid, n, 0 from unnest($1::int[], $2::bigint[]) as given (uid, n)
on conflict (uid) do update set n = d.n + excluded.n

-- name: tend_lock
-- Locks each lane in order, creating new ones. Unlike "do nothing" and a lock after, this cannot lose a lane that is being removed.
insert into lanes (lane, width) select l, w from unnest($1::bigint[], $2::int[]) as t(l, w) order by l
on conflict (lane) do update set width = coalesce(nullif(excluded.width, 0), lanes.width)

-- name: tend_members
-- Admitted runs that still wait: a claim in flight finishes first, a later one skips them until we are done.
-- Found first, then locked: in the order of their key the planner might search by walking along it.
select from waiting where run_id = any(array(
  select run_id from waiting where {lane} = any($1::bigint[]) and held & {bit} = 0)) order by run_id for update

-- name: tend
-- Admits the first of each lane, as many as its width leaves after the active ones: running, or between two attempts.
-- A run that was admitted before and is no longer among the first goes back, unless it has begun.
with places as (
  select l.lane, greatest(0, l.width
    - (select count(*) from running r where r.{lane} = l.lane)
    - (select count(*) from waiting w where w.{lane} = l.lane and w.held & {bit} = 0 and w.failures + w.losses > 0)) as free
  from lanes l where l.lane = any($1::bigint[])),
first as (
  select f.run_id from places p cross join lateral (
    select m.run_id from (
      (select w.run_id, w.wanted from waiting w where w.{lane} = p.lane and w.held & {bit} = 0 and w.held & {blocked} = 0 and w.failures + w.losses = 0)
      union all
      (select w.run_id, w.wanted from waiting w where w.{lane} = p.lane and w.held & {bit} = {bit} and w.held & {blocked} = 0
       order by w.wanted, w.run_id limit p.free)) m
    order by m.wanted, m.run_id limit p.free) f),
change as (
  select w.run_id from waiting w
  where w.{lane} = any($1::bigint[]) and w.held & {bit} = 0 and w.failures + w.losses = 0 and w.run_id <> all(array(select run_id from first))
  union all
  select w.run_id from waiting w where w.run_id = any(array(select run_id from first)) and w.held & {bit} <> 0)
update waiting w set held = w.held # {bit}, free_at = case when w.free_at = -$2::bigint then w.free_at else $2 end
where w.run_id = any(array(select run_id from change))
returning w.run_id, w.due, w.gate, w.meter, w.held

-- name: put_meters
-- Locks meters in order: the last lock of any transaction but the one that grants, which waits for no other.
-- 0: as it is defined, and it is, as long as a run has it. A redefined meter is checked at once.
insert into meters (meter, starts, per, free_at, next_at)
select m, s, p, 0, d from unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[]) as t(m, s, p, d)
where s > 0 or exists (select from meters k where k.meter = m) order by m
on conflict (meter) do update set
  starts = coalesce(nullif(excluded.starts, 0), meters.starts), per = coalesce(nullif(excluded.per, 0), meters.per),
  (free_at, next_at) = (
    select meters.free_at, least(meters.next_at, greatest(excluded.next_at, meters.free_at))
    where (excluded.starts, excluded.per) in ((0, 0), (meters.starts, meters.per))
    union all select 0, 0 limit 1)

-- name: permit
-- The runs are sorted, and width_bucket finds the instant of each: see settle_final.
update waiting set held = held & ~8, free_at = $3, due = ($2::bigint[])[width_bucket(run_id, $1::uuid[])] where run_id = any($1::uuid[])  -- held: 8 rate

-- name: advance_meters
-- A read without locks, so that it also finds meters that others have locked now and may leave unchanged.
update meters m set free_at = t.free_at, check_at = t.check_at, given = t.given, next_at = coalesce(
  (select greatest(w.due, t.free_at) from waiting w where w.meter = m.meter and w.held = 8 order by w.due, w.run_id limit 1), $5)  -- held: 8 rate
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[]) t(meter, free_at, check_at, given) where m.meter = t.meter

-- name: take_meters
select meter, starts, per, check_at, given from meters where next_at <= $1 or check_at <= $3 order by next_at, meter limit $2
for update skip locked

-- name: forget_grants
with gone as (
  delete from grants g using unnest($1::bigint[], $2::bigint[]) t(meter, before) where g.meter = t.meter and g.at <= t.before
  returning g.meter)
select meter, count(*) as n from gone group by meter

-- name: granted
-- The earliest of each meter's last starts that count, and the last of all. After the meters are locked, not with them: others
-- may have granted starts while we waited.
select m as meter, array(select at from grants where meter = m order by at limit n offset o) as earliest,
  (select at from grants where meter = m order by at desc limit 1) as last
from unnest($1::bigint[], $2::int[], $3::int[]) as t(m, o, n)

-- name: lapsed
-- Meters with starts that no worker has used in time. A run that was claimed meanwhile has another token.
-- Each run by its key: a join would read all due runs, if the table was nearly empty when it was last analysed.
select t.meter from unnest($1::bigint[], $2::bigint[]) t(meter, since) where exists (
  select from grants g where g.meter = t.meter and g.at >= t.since and g.at <= $3
    and (select w.token = g.token and w.held & 8 = 0 from waiting w where w.run_id = g.run_id))  -- held: 8 rate

-- name: unused
-- Starts that no worker has used yet, with their runs locked; runs that others have locked at this moment are being used.
select g.meter, g.run_id, g.token, g.due from unnest($1::bigint[], $2::bigint[]) t(meter, since)
  cross join lateral (select * from grants g where g.meter = t.meter and g.at >= t.since) g
  cross join lateral (select from waiting w where w.run_id = g.run_id and w.token = g.token and w.held & 8 = 0 for update skip locked) w  -- held: 8 rate

-- name: take_back
-- The runs are sorted, and width_bucket finds the instant of each: see settle_final.
with held as (
  update waiting set held = held | 8, due = ($4::bigint[])[width_bucket(run_id, $2::uuid[])] where run_id = any($2::uuid[]))  -- held: 8 rate
delete from grants g using unnest($1::bigint[], $2::uuid[], $3::int[]) t(meter, run_id, token)
where g.meter = t.meter and g.at >= $5 and g.run_id = t.run_id and g.token = t.token

-- name: rated
-- Runs that only their rate holds. A transaction that has locked one may lock our meter next: we do not wait for it.
select t.meter, w.run_id, w.due, w.token from unnest($1::bigint[], $2::int[]) t(meter, most) cross join lateral (
  select run_id, due, token from waiting
  where meter = t.meter and held = 8 and due <= $3 and (expires_at is null or expires_at >= $4)  -- held: 8 rate
  order by due, run_id limit t.most for update skip locked) w
limit $5

-- name: recall_take
-- Waits for the transaction that grants, which waits for no other. In order, as by transactions that make runs wait for rates.
select meter from meters where meter in (select meter from grants where at > $1) order by meter for update

-- name: recall
-- The next pass computes again what there is to grant.
with counted as (
  update grants set at = $3 where meter = any($1::bigint[]) and at > $2 returning meter),
looked_at as (
  update meters m set free_at = 0, next_at = 0, check_at = $3, given = given - t.gone
  from unnest($1::bigint[], $4::int[]) t(meter, gone) where m.meter = t.meter)
select count(*) as n from counted

-- name: empty_meters
-- Meters after $2, each with whether it has runs or grants left. Each by its key: as joins these would read all running runs.
select m.meter, (select run_id from waiting w where w.meter = m.meter limit 1) is null
  and (select run_id from running r where r.meter = m.meter limit 1) is null
  and (select at from grants g where g.meter = m.meter and g.at > $1 - m.per limit 1) is null as empty
from (select meter, per from meters where meter > $2 order by meter limit $3) m order by m.meter

-- name: lock_empty_meters
select meter from meters where meter = any($1::bigint[]) order by meter for update skip locked

-- name: forget_empty_meters
with gone as (
  delete from meters m where meter = any($1::bigint[])
    and (select run_id from waiting w where w.meter = m.meter limit 1) is null
    and (select run_id from running r where r.meter = m.meter limit 1) is null
  returning meter)
delete from grants where meter = any(array(select meter from gone))
