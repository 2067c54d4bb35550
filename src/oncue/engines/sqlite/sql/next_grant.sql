select coalesce((select min(next_at) from meters), ?1), coalesce((select min(check_at) from meters), ?1)
