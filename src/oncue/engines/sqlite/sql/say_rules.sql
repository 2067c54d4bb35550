insert into zone_rules (version, seen_at) values (?1, ?2)
on conflict do update set seen_at = excluded.seen_at where abs(seen_at - excluded.seen_at) > ?3
