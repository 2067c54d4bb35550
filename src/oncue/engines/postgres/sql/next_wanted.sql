-- As newest_ends: of each user the next $4 that wait, in the order of `wanted`, up to $5, and of all those the first $6.
select u.uid, f.wanted, f.run_id, f.more from unnest($1::int[], $2::bigint[], $3::uuid[]) u(uid, at, last) cross join lateral (
  select wanted, run_id, row_number() over (order by wanted, run_id) = (select $4::bigint) as more from (
    select wanted, run_id from waiting
    where uid = any(array[u.uid]) and (wanted, run_id) > (u.at, u.last) and wanted < $5
    order by uid, wanted, run_id limit (select $4::bigint)) f) f
order by f.wanted, f.run_id limit $6
