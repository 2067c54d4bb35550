-- Each by its key: as joins these would read all that runs.
select meter from meters m where (select run_id from waiting w where w.meter = m.meter limit 1) is null
  and (select run_id from running r where r.meter = m.meter limit 1) is null
  and (select at from grants g where g.meter = m.meter and g.at > $1 - m.per limit 1) is null
order by meter for update skip locked
