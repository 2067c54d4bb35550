update findings set cleared_at = ?3 where check_name = ?1 and object_id = ?2 and cleared_at is null
returning check_name, object_id, words, first_seen, seen_at, cleared_at
