-- One-shots that ended, newest end first.
select p.run_id as job_id, p.uid, job_version, status, spec, payload, null::bigint as created_at, ended_at, null::bigint as next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, is_job and status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) {begins} as fits,
      row_number() over (order by ended_at desc, run_id desc) = (select $4::int) as ends
    from (
      select run_id, uid, class_id, job_version, case state when 4 then 3 else 2 end as status, spec, payload, ended_at,  -- state: 4 cancelled; status: 2 finished, 3 cancelled
        name, run_id = job_id and spec is not null as is_job from history
      where uid = u.uid and (ended_at, run_id) < ($6::bigint, $7::uuid) {name}
      order by ended_at desc, run_id desc limit (select $4::int)) w) w
  where fits or ends
  order by ended_at desc, run_id desc limit (select $5::int)) p
order by p.ended_at desc, p.run_id desc limit (select $5::int)
