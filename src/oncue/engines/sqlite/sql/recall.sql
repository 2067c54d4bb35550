update meters set free_at = 0, next_at = 0, check_at = ?2, given = given - ?3 where meter = ?1
