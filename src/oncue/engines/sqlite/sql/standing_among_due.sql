select count(*) from (
  select 1 from runs r where class_id = ?1 and held = 0 and (due, run_id) < (?2, ?3)  -- held: 0 no
    and not exists (select 1 from running x where x.run_id = r.run_id)
  order by due, run_id limit 10000)
