with gone as (
  delete from grants g using unnest($1::bigint[], $2::bigint[]) t(meter, before) where g.meter = t.meter and g.at <= t.before
  returning g.meter)
select meter, count(*) as n from gone group by meter
