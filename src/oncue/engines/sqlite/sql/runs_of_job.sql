-- The first ?2 runs that have not ended. Only the columns that are needed: whole rows would be copied twice.
select r.run_id, r.wanted, r.nominal, r.origin, r.held, r.token, r.tries, exists (select 1 from running x where x.run_id = r.run_id) from (
  select run_id, wanted, nominal, origin, held, token, failures + losses as tries from runs where run_id = ?1 and job_id = ?1
  union all
  select * from (
    select run_id, wanted, nominal, origin, held, token, failures + losses from runs
    where job_id = ?1 and job_id <> run_id order by run_id limit ?2)) r
order by r.wanted, r.run_id
