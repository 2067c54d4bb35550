select uid, class_id, what, n from counters where ?1 is null or uid = ?1 order by uid, class_id, what
