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
