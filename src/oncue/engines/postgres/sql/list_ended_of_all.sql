-- Everybody's one-shots that ended, newest end first, among the ends at $6, $7 of the users $1: see newest_ends.
select p.run_id as job_id, p.uid, job_version, status, spec, payload, null::bigint as created_at, ended_at, null::bigint as next_at, fits, ends
from (
  select w.*, is_job and status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) {begins} as fits,
    row_number() over (order by ended_at desc, run_id desc) = (select $4::int) as ends
  from unnest($1::int[], $6::bigint[], $7::uuid[]) i(uid, at, id) cross join lateral (
    select run_id, uid, class_id, job_version, case state when 4 then 3 else 2 end as status, spec, payload, ended_at,  -- state: 4 cancelled; status: 2 finished, 3 cancelled
      name, run_id = job_id and spec is not null as is_job from history
    where uid = i.uid and ended_at = i.at and run_id = i.id limit 1) w) p
where fits or ends
order by p.ended_at desc, p.run_id desc limit (select $5::int)
