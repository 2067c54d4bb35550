-- Running runs are still in the index: at most as many as all workers have slots.
select run_id, due, class_id, uid from runs r
where class_id = ?1 and held = 0 and due > ?2 and due <= ?3 and not exists (select 1 from running x where x.run_id = r.run_id)  -- held: 0 no
order by due, run_id limit ?4
