select
  (select next_at from agenda where next_at < 4611686018427387904 order by next_at limit 1),
  (select wanted from runs where held & 3 > 0 and held & 4 = 0 and wanted <= ?1 order by wanted limit 1),  -- held: 1 lane, 2 gate, 4 paused
  (select count(*) from (
    select 1 from running r where not exists (select 1 from workers w where w.worker_id = r.worker_id) limit ?2)),
  (select min(from_at) from pieces)
