-- Their users' usage is unknown again, as at first. Locked in order, as by callers that create jobs of several users.
with bite as (
  update quotas q set jobs = default, payload = default, runs = default
  from (select uid from quotas where uid > $1 order by uid limit $2 for update) held where q.uid = held.uid returning q.uid)
select max(uid) as uid from bite
