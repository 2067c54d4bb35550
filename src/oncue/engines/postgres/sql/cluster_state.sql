select
  (select next_at from agenda where next_at < 4611686018427387904 order by next_at limit 1) as next_plan,
  (select wanted from waiting where held & 3 > 0 and held & 4 = 0 and wanted <= $1 order by wanted limit 1) as held_since,  -- held: 1 lane, 2 gate, 4 paused
  (select count(*) from (
    select from running r where not exists (select from workers w where w.worker_id = r.worker_id) limit $2) o) as orphans,
  (select min(from_at) from pieces where parent = 'history') as history_from
