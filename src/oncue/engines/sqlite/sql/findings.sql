select check_name, object_id, words, first_seen, seen_at, cleared_at from findings
