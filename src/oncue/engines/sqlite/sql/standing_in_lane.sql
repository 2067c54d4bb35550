-- Those that a lane or gate has let in, those that go on first: who stands in the way of the others.
select r.run_id from runs r where r.{lane} = ?1 and {inside} and r.run_id <> ?2
order by not exists (select 1 from running x where x.run_id = r.run_id), r.failures + r.losses = 0, r.wanted, r.run_id limit 10000
