delete from dead where run_id = ?1 and (?2 is null or uid = ?2) returning uid, class_id
