select at from grants where meter = ?1 and at > ?2 order by at desc limit ?3
