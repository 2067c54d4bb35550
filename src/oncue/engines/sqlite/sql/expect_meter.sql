update meters set next_at = min(next_at, max(?2, free_at)) where meter = ?1
