-- The first ?2 runs that have not ended.
select r.run_id, r.wanted, r.nominal, r.origin, r.held, r.token, r.failures + r.losses, x.run_id is not null from (
  select * from runs where run_id = ?1 and job_id = ?1
  union all
  select * from (select * from runs where job_id = ?1 and job_id <> run_id order by run_id limit ?2)) r
left join running x on x.run_id = r.run_id
order by r.wanted, r.run_id
