-- Of each user the next $4 after a position, by the index that has nothing else in it, and of all those the newest $7. `more`: the
-- last one that was read of its user. The rows themselves are read afterwards.
select u.uid, f.ended_at, f.run_id, f.more from unnest($1::int[], $2::bigint[], $3::uuid[]) u(uid, at, last) cross join lateral (
  select ended_at, run_id, row_number() over (order by ended_at desc, run_id desc) = (select $4::bigint) as more from (
    select ended_at, run_id from history
    where uid = u.uid and (ended_at, run_id) < (u.at, u.last) and ended_at >= $5 and ended_at <= $6
    order by ended_at desc, run_id desc limit (select $4::bigint)) f) f
order by f.ended_at desc, f.run_id desc limit $7
