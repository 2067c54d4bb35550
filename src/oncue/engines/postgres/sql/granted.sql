-- The earliest of each meter's last starts that count, and the last of all. After the meters are locked, not with them: others
-- may have granted starts while we waited.
select m as meter, array(select at from grants where meter = m order by at limit n offset o) as earliest,
  (select at from grants where meter = m order by at desc limit 1) as last
from unnest($1::bigint[], $2::int[], $3::int[]) as t(m, o, n)
