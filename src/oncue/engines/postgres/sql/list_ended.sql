-- One-shots that ended, newest end first.
select p.run_id, p.ended_at, is_job and ($5::bool is null or (state = 4) = $5) and ($6::int[] is null or class_id = any($6)) as wanted
from unnest($1::int[]) u(uid) cross join lateral (
  select run_id, ended_at, state, class_id, run_id = job_id and spec is not null as is_job from history
  where uid = u.uid and (ended_at, run_id) < ($2::bigint, $3::uuid) {name}
  order by ended_at desc, run_id desc limit $4) p
order by p.ended_at desc, p.run_id desc limit $4
