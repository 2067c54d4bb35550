update bulks set progress = ?3, free_at = ?4, state = ?5, ended_at = ?6, why = ?7
where bulk_id = ?1 and turn = ?2 and ended_at is null returning 1
