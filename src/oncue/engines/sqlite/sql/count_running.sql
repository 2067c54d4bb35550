select r.class_id, count(*) from (select run_id from running limit ?2) x cross join runs r on r.run_id = x.run_id
where ?1 is null or r.uid = ?1 group by 1
