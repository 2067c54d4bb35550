-- Of each user the next $4 after a position, by the index that has nothing else in it, and of all those the newest $9. The rows
-- themselves are read afterwards. All users from ($5, $6) on, or without those the users $1, each from a position of its own: to send a
-- thousand users takes as long as to find their ends.
select u.uid, f.ended_at, f.run_id
from (select uid, $5::bigint as at, $6::uuid as last from users where $5 is not null union all select * from unnest($1::int[], $2::bigint[], $3::uuid[])) u
cross join lateral (
  select ended_at, run_id from history
  where uid = u.uid and (ended_at, run_id) < (u.at, u.last) and ended_at >= $7 and ended_at <= $8
  order by ended_at desc, run_id desc limit (select $4::bigint)) f
order by f.ended_at desc, f.run_id desc limit $9
