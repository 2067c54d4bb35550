-- Of the user's live runs only the first so many are read: a backlog of recurring jobs has no index that passes over it.
select u.uid, u.user_id, u.created_at,
  (select count(*) from (select revoked_at, expires_at from keys where uid = u.uid limit :keys)
    where revoked_at is null and (expires_at is null or expires_at > :now)) as keys,
  (select count(*) from (
    select 1 from jobs where uid = u.uid and status < 2  -- status: 2 finished
    union all select 1 from (select run_id, job_id from runs where uid = u.uid limit 5 * :jobs) where run_id = job_id
    limit :jobs)) as open_jobs,
  (select payload from quotas where uid = u.uid) as payload_bound
from users u where u.uid > :after order by u.uid limit :limit
