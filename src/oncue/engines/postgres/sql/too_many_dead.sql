-- For the next $2 users after $1 with dead letters: the newest letter beyond the limit. Each user is found by the index.
with recursive bite(uid, n) as (
  (select uid, 1 from dead where uid > $1 order by uid limit 1)
  union all
  select (select d.uid from dead d where d.uid > s.uid order by d.uid limit 1), s.n + 1 from bite s where s.uid is not null and s.n < $2)
select s.uid, d.ended_at, d.run_id from bite s
left join lateral (
  select ended_at, run_id from dead d where d.uid = any(array[s.uid]) order by d.uid desc, ended_at desc, run_id desc offset $3 limit 1) d on true
where s.uid is not null order by s.uid
