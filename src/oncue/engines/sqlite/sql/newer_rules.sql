select max(version) from zone_rules where version > ?1 and abs(seen_at - ?2) <= ?3
