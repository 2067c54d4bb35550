-- The oldest and the newest of a user's runs, by their ids: late runs are mostly among them, however many are not due yet.
select r.run_id, r.due, r.class_id, r.uid
from (select run_id from (select run_id from runs where uid = ?1 order by run_id limit 200)
      union select run_id from (select run_id from runs where uid = ?1 order by run_id desc limit 200)) f
  cross join runs r on r.run_id = f.run_id
where r.held = 0 and r.due <= ?2 and r.class_id in (select value from carray(?3))  -- held: 0 no
  and not exists (select 1 from running x where x.run_id = r.run_id)
limit ?4
