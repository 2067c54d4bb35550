-- `running` has no index by user, and is as small as the fleet: one walk for the whole page.
with page as (select uid, user_id, created_at from users where uid > $1::bigint order by uid limit $2),
busy as (select uid, count(*) as n from running where run_id = job_id and uid = any(array(select uid from page)) group by uid)
select p.uid, p.user_id, p.created_at,
  (select count(*) from (select revoked_at, expires_at from keys where uid = p.uid limit $4) k
    where revoked_at is null and (expires_at is null or expires_at > $3)) as keys,
  (select count(*) from (
    (select from jobs where uid = p.uid and status < 2)  -- status: 2 finished
    union all (select from waiting where uid = p.uid and run_id = job_id)
    limit $5) found) + coalesce((select n from busy b where b.uid = p.uid), 0) as open_jobs,
  (select payload from quotas where uid = p.uid) as payload_bound
from page p order by p.uid
