-- Waiting runs of a job after ?2, of which {which}. What was asked for by hand after ?4 is not meant.
select run_id from runs r where run_id = ?1 and run_id > ?2 and {which} and (origin is null or wanted <= ?4)
  and not exists (select 1 from running x where x.run_id = r.run_id)
union all
select * from (
  select run_id from runs r where job_id = ?1 and job_id <> run_id and run_id > ?2 and {which} and (origin is null or wanted <= ?4)
    and not exists (select 1 from running x where x.run_id = r.run_id)
  order by run_id limit ?3)
