select run_id from runs r where run_id = ?1 and not exists (select 1 from running x where x.run_id = r.run_id)
union all
select * from (
  select run_id from runs r where job_id = ?1 and job_id <> run_id and not exists (select 1 from running x where x.run_id = r.run_id)
  order by run_id limit ?2)
