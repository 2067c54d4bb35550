insert into findings as f (check_name, object_id, words, first_seen, seen_at)
select t.check_name, t.object_id, t.words, $4, $4 from unnest($1::text[], $2::text[], $3::text[]) t(check_name, object_id, words)
on conflict (check_name, object_id) do update set words = excluded.words, seen_at = excluded.seen_at,
  first_seen = case when f.cleared_at is null then f.first_seen else excluded.first_seen end, cleared_at = null
returning check_name, object_id, words, first_seen, seen_at, cleared_at
