-- The same, of those with a name. Not all runs are jobs.
select p.job_id, is_job and ($5::int[] is null or class_id = any($5)) as wanted
from unnest($1::int[]) u(uid) cross join lateral (
  (select job_id, class_id, name, status = any($4::int[]) as is_job from jobs
   where (uid, name, job_id) < (u.uid, $6::text, $2::uuid) and uid >= u.uid and name is not null
   order by uid desc, name desc, job_id desc limit $3)
  union all
  (select run_id, class_id, name, run_id = job_id and spec is not null and {held} from waiting
   where (uid, name, run_id) < (u.uid, $6, $2::uuid) and uid >= u.uid and name is not null
   order by uid desc, name desc, run_id desc limit $3)
  union all
  (select run_id, class_id, name, true from running
   where uid = u.uid and run_id = job_id and spec is not null and run_id < $2 and name = $6 and {running}
   order by run_id desc limit $3)) p
where name = $6
order by p.job_id desc limit $3
