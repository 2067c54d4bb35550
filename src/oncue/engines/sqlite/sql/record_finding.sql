insert into findings (check_name, object_id, words, first_seen, seen_at) values (?1, ?2, ?3, ?4, ?4)
on conflict (check_name, object_id) do update set words = excluded.words, seen_at = excluded.seen_at,
  first_seen = iif(cleared_at is null, first_seen, excluded.first_seen), cleared_at = null
returning check_name, object_id, words, first_seen, seen_at, cleared_at
