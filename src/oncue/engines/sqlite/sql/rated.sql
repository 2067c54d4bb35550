-- Runs that only their rate holds.
select run_id, due, token from runs
where meter = ?1 and held = 8 and due <= ?2 and (expires_at is null or expires_at >= ?3) order by due, run_id limit ?4  -- held: 8 rate
