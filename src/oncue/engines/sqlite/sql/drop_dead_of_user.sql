delete from dead where run_id in (
  select run_id from dead where uid = ?1 and (ended_at, run_id) <= (?2, ?3) order by ended_at, run_id limit ?4) returning uid, class_id
