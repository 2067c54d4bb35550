-- Counts up to a limit, as in count_open_jobs.
select count(*) from (
  select 1 from runs r where uid = ?1 and origin is not null and not exists (select 1 from running x where x.run_id = r.run_id) limit ?2)
