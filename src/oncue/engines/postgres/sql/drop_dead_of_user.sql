delete from dead where run_id = any(array(
  select run_id from dead where uid = any(array[$1::int]) and (ended_at, run_id) <= ($2, $3) order by uid, ended_at, run_id limit $4))
returning run_id
