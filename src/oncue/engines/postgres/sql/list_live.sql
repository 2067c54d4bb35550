-- Recurring jobs of some statuses and one-shots that have not ended, newest first. {held} and {running} say which of those.
-- Each walk is bounded by its limit alone and ordered by its whole index, so that no plan walks past other users' rows;
-- what it finds beyond its end is left out afterwards.
select p.job_id, $5::int[] is null or class_id = any($5) as wanted
from unnest($1::int[]) u(uid) cross join lateral (
  (select j.job_id, j.class_id from unnest($4::int[]) s(status) cross join lateral (
     select status, job_id, class_id from jobs where (uid, status, job_id) < (u.uid, s.status, $2::uuid) and uid >= u.uid
     order by uid desc, status desc, job_id desc limit $3) j
   where j.status = s.status)
  union all
  (select run_id, class_id from waiting
   where (uid, run_id) < (u.uid, $2::uuid) and uid >= u.uid and run_id = job_id and spec is not null and {held}
   order by uid desc, run_id desc limit $3)
  union all
  (select run_id, class_id from running where uid = u.uid and run_id = job_id and spec is not null and run_id < $2 and {running}
   order by run_id desc limit $3)) p
order by p.job_id desc limit $3
