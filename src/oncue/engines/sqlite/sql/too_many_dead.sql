-- For the next user after ?1 with dead letters: the newest letter beyond the limit.
select u.uid, d.ended_at, d.run_id from (select min(uid) as uid from dead where uid > ?1) u
left join dead d on d.run_id = (select run_id from dead where uid = u.uid order by ended_at desc, run_id desc limit 1 offset ?2)
where u.uid is not null
