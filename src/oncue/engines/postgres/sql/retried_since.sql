-- Each by its key, user after user, in the order of the whole index: few runs are retried at any moment, among any number that
-- wait, and no statistics can make another plan look cheaper.
select v.* from (select uid from users where $1::int is null or uid = $1) u
cross join lateral (
  select run_id, tried_at from waiting
  where (uid, tried_at) >= (u.uid, $2::bigint) and uid <= u.uid and tried_at is not null and failures + losses > 0
  order by uid desc, tried_at desc limit $3) t
cross join lateral (select * from waiting_runs where run_id = t.run_id limit 1) v
order by t.tried_at desc, v.run_id desc limit $3
