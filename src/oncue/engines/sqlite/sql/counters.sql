select uid, class_id, what, n from counters where uid = ? order by class_id, what
