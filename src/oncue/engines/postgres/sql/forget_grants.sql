delete from grants g using unnest($1::bigint[], $2::bigint[]) t(meter, before) where g.meter = t.meter and g.at <= t.before
