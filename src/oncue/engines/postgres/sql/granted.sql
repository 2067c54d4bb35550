-- After the meters are locked, not with them: others may have granted while we waited. Oldest first.
select m as meter, array(
  select at from (select at from grants where meter = m order by at desc limit s) newest order by at) as granted
from unnest($1::bigint[], $2::int[]) as t(m, s)
