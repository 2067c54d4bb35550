delete from dead where run_id in (select run_id from dead where ended_at < ?1 order by ended_at, run_id limit ?2) returning uid, class_id
