-- name: members
select r.run_id, r.uid, r.class_id, r.lane, r.gate from carray(?1) asked cross join runs r on r.run_id = asked.value

-- name: lane_inside
-- The runs that a lane has admitted. Pinned ones, running or between two attempts, keep their position whatever is added.
select l.value, r.run_id, r.wanted, r.gate,
  r.failures + r.losses > 0 or exists (select 1 from running x where x.run_id = r.run_id) as pinned
from carray(?1) l cross join runs r on r.lane = l.value and r.held & 5 in (0, 4)  -- held: 1 lane, 4 paused

-- name: lane_line
-- The first runs in line for each lane, without paused ones.
select l.value, r.run_id, r.wanted, r.gate from carray(?1) l cross join runs r
where r.run_id in (select run_id from runs where lane = l.value and held & 5 = 1 order by wanted, run_id limit ?2)  -- held: 1 lane, 4 paused

-- name: gate_inside
select l.value, r.run_id, r.wanted, r.gate,
  r.failures + r.losses > 0 or exists (select 1 from running x where x.run_id = r.run_id) as pinned
from carray(?1) l cross join runs r on r.gate = l.value and r.held & 7 in (0, 4)  -- held: 1 lane, 2 gate, 4 paused

-- name: gate_line
-- In line for a gate are runs that their lane has admitted and that are not paused.
select l.value, r.run_id, r.wanted, r.gate from carray(?1) l cross join runs r
where r.run_id in (select run_id from runs where gate = l.value and held & 7 = 2 order by wanted, run_id limit ?2)  -- held: 1 lane, 2 gate, 4 paused

-- name: note_dropped
insert into notices_dropped (uid, n, reported) values (?1, ?2, 0) on conflict do update set n = n + ?2

-- name: set_width
insert into lanes (lane, width) values (?, ?) on conflict do update set width = excluded.width

-- name: widths
select lane, width from lanes where lane in (select value from carray(?1))

-- name: let_in
update runs set held = held & ~?1, free_at = iif(free_at = -?3, free_at, ?3) where run_id = ?2 returning meter, held, due

-- name: keep_out
-- Back in line for its lane, a run is back in line for its gate too.
update runs set held = held | ?1 | iif(gate is null, 0, 2) where run_id = ?2  -- held: 2 gate

-- name: expect_meter
update meters set next_at = min(next_at, max(?2, free_at)) where meter = ?1

-- name: put_meter
-- A redefined meter is checked at once.
insert into meters (meter, starts, per, free_at, next_at) values (?1, ?2, ?3, 0, ?4)
on conflict do update set starts = ?2, per = ?3,
  free_at = iif((starts, per) = (?2, ?3), free_at, 0),
  next_at = iif((starts, per) = (?2, ?3), min(next_at, max(?4, free_at)), 0)

-- name: take_meters
select meter, starts, per, check_at, given from meters where next_at <= ?1 or check_at <= ?3 order by next_at, meter limit ?2

-- name: granted
-- The earliest of the meter's last starts that count, and the last of all.
select at, (select max(at) from grants where meter = ?1) from grants where meter = ?1 order by at limit ?3 offset ?2

-- name: rated
-- Runs that only their rate holds.
select run_id, due, token from runs
where meter = ?1 and held = 8 and due <= ?2 and (expires_at is null or expires_at >= ?3) order by due, run_id limit ?4  -- held: 8 rate

-- name: permit
update runs set held = held & ~8, due = ?1, free_at = ?3 where run_id = ?2  -- held: 8 rate

-- name: advance_meter
update meters set free_at = ?2, check_at = ?4, given = ?5, next_at = coalesce(
  (select max(due, ?2) from runs where meter = ?1 and held = 8 order by due, run_id limit 1), ?3)  -- held: 8 rate
where meter = ?1

-- name: unused
-- Starts that no worker has used yet. A run that was claimed meanwhile has another token.
select g.rowid, g.run_id, g.due from grants g where g.meter = ?1 and g.at >= ?2 and g.at <= ?3 and exists (
  select 1 from runs r where r.run_id = g.run_id and r.token = g.token and r.held & 8 = 0  -- held: 8 rate
    and not exists (select 1 from running x where x.run_id = r.run_id))

-- name: recall
update meters set free_at = 0, next_at = 0, check_at = ?2, given = given - ?3 where meter = ?1

-- name: forget_meters
delete from meters where meter in (select value from carray(?2)) and not exists (select 1 from runs r where r.meter = meters.meter)
  and not exists (select 1 from grants g where g.meter = meters.meter and g.at > ?1 - meters.per)
returning meter
