-- Jobs that may still run and recurring ones in whatever state, newest first. {name} narrows by an index of its own.
select p.job_id, ($4::int is null or status = $4) and ($5::int[] is null or class_id = any($5)) as wanted
from unnest($1::int[]) u(uid) cross join lateral (
  (select job_id, status, class_id from jobs where uid = u.uid and job_id < $2 {name} order by job_id desc limit $3)
  union all
  (select run_id, (held & 4 > 0)::int, class_id from waiting where uid = u.uid and run_id = job_id and spec is not null and run_id < $2 {name}
   order by run_id desc limit $3)
  union all
  (select run_id, 0, class_id from running where uid = u.uid and run_id = job_id and spec is not null and run_id < $2 {name}
   order by run_id desc limit $3)) p
order by p.job_id desc limit $3
