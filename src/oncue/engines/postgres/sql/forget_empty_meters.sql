with gone as (
  delete from meters m where meter = any($1::bigint[])
    and (select run_id from waiting w where w.meter = m.meter limit 1) is null
    and (select run_id from running r where r.meter = m.meter limit 1) is null
  returning meter)
delete from grants where meter = any(array(select meter from gone))
