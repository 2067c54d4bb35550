-- The runs in ?2 are not held but admitted: they are withdrawn unless a worker has claimed them.
select r.run_id from carray(?1) asked cross join runs r on r.run_id = asked.value
where r.failures + r.losses = 0 and (r.held & 1 = 1  -- held: 1 lane
  or r.token = 0 and r.run_id in (select value from carray(?2)) and not exists (select 1 from running x where x.run_id = r.run_id))
