update tended set at = min(?1, coalesce(at + ?2, ?1)) returning at
