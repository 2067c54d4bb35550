with gone as (
  delete from dead where run_id = any(array(select run_id from dead where ended_at < $1 order by ended_at, run_id limit $2)) returning uid, class_id),
counted as (insert into tally (uid, class_id, what, n) select uid, class_id, 'discarded', count(*) from gone group by uid, class_id)
select uid, count(*) as n from gone group by uid order by uid
