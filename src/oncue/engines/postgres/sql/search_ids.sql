-- Ids from $2 to $3. Of each table up to $4 entries, whoever's they are: ids of one minute begin alike.
select id from (
  select f.*, row_number() over (partition by own order by id desc) as place from (
    select distinct id, own from (
      (select job_id as id, uid, true as own from jobs where job_id >= $2::uuid and job_id <= $3::uuid order by job_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from waiting where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from running where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from dead where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)
      union all (select run_id, uid, run_id = job_id from history where run_id >= $2 and run_id <= $3 order by run_id desc limit $4)) a
    where $1::int is null or uid = $1) f) f
where place <= $5 order by id desc
