update bulks set progress = ?3 where bulk_id = ?1 and turn = ?2 and state = ?4 returning 1
