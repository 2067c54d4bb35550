with gone as (
  delete from dead where run_id = any(array(
    select run_id from dead where uid = any(array[$1::int]) and (ended_at, run_id) <= ($2, $3) order by uid, ended_at, run_id limit $4))
  returning run_id, uid, class_id),
counted as (insert into tally (uid, class_id, what, n) select uid, class_id, 'discarded', count(*) from gone group by uid, class_id)
select run_id from gone
