-- The runs that hold a lane or gate, active ones first.
select r.run_id from runs r where r.{lane} = ?1 and {inside} and r.run_id <> ?2
order by not exists (select 1 from running x where x.run_id = r.run_id), r.failures + r.losses = 0, r.wanted, r.run_id limit 1
