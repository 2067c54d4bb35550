select count(*) from (
  select 1 from runs r where class_id = ?1 and held = 0 and due <= ?2 and not exists (select 1 from running x where x.run_id = r.run_id)  -- held: 0 no
  limit ?3)
