delete from meters where meter in (select value from carray(?2)) and not exists (select 1 from runs r where r.meter = meters.meter)
  and not exists (select 1 from grants g where g.meter = meters.meter and g.at > ?1 - meters.per)
returning meter
