with gone as (
  delete from dead where run_id = any($1::uuid[]) and ($2::int is null or uid = $2) returning run_id, uid, class_id),
counted as (insert into tally (uid, class_id, what, n) select uid, class_id, 'discarded', count(*) from gone group by uid, class_id)
select run_id from gone
