-- As newest_ends: of each user the next $4 that wait, in the order of `wanted`, up to $7, and of all those the first $8.
select u.uid, f.wanted, f.run_id
from (select uid, $5::bigint as at, $6::uuid as last from users where $5 is not null union all select * from unnest($1::int[], $2::bigint[], $3::uuid[])) u
cross join lateral (
  select wanted, run_id from waiting
  where uid = any(array[u.uid]) and (wanted, run_id) > (u.at, u.last) and wanted < $7
  order by uid, wanted, run_id limit (select $4::bigint)) f
order by f.wanted, f.run_id limit $8
