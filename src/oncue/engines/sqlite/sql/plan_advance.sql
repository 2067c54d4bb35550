update agenda set next_at = ?1, floor = max(floor, ?2), planned = ?3, rules = ?4 where job_id = ?5
