-- Meters after $2, each with whether it has runs or grants left. Each by its key: as joins these would read all running runs.
select m.meter, (select run_id from waiting w where w.meter = m.meter limit 1) is null
  and (select run_id from running r where r.meter = m.meter limit 1) is null
  and (select at from grants g where g.meter = m.meter and g.at > $1 - m.per limit 1) is null as empty
from (select meter, per from meters where meter > $2 order by meter limit $3) m order by m.meter
