-- Not below a higher stamp; a user has at most $6 sets.
insert into sets (uid, name, stamp, digest, applied_at)
select $1, $2, $3, $4, $5
where exists (select from sets where uid = $1 and name = $2)
  or (select count(*) from (select from sets where uid = $1 limit $6) there) < $6
on conflict (uid, name) do update set stamp = excluded.stamp, digest = excluded.digest, applied_at = excluded.applied_at
where sets.stamp <= excluded.stamp
returning stamp
