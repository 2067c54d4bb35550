select at from grants where meter = ?1 order by at desc limit ?2
