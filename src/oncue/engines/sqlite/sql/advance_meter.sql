update meters set free_at = ?2, check_at = ?4, given = ?5, next_at = coalesce(
  (select max(due, ?2) from runs where meter = ?1 and held = 8 order by due, run_id limit 1), ?3)  -- held: 8 rate
where meter = ?1
