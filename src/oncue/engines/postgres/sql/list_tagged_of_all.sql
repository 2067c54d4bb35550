-- Everybody's: see list_tagged. The user of a tag is that of its job.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at,
  coalesce(next_at, (select a.next_at from agenda a where a.job_id = p.job_id)) as next_at, fits, ends
from (
  select * from (
    select w.*, j.*, status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) and ($8::text is null or name = $8) as fits
    from (
      select t.*, row_number() over (order by job_id desc) = (select $4::int) as ends from (
        select uid, job_id from job_tags where tag = $7 and job_id < $6::uuid
        order by job_id desc limit (select $4::int)) t) w
    left join lateral (
      select class_id, version, status, name, spec, payload, created_at, updated_at, null::bigint as next_at
      from jobs where job_id = w.job_id
      union all
      select class_id, job_version, case state when 0 then (held & 4 > 0)::int when 1 then 0 when 4 then 3 else 2 end::smallint, name, spec,  -- state: 0 waiting, 1 running, 4 cancelled; held: 4 paused; status: 0 active, 2 finished, 3 cancelled
        payload, null, coalesce(ended_at, updated_at), next_at
      from one_shots where job_id = w.job_id
      limit 1) j on true) w
  where fits or ends
  order by job_id desc limit (select $5::int)) p
where (select $1::int[]) is null
order by p.job_id desc limit (select $5::int)
