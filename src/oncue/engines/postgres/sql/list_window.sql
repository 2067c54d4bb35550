-- Jobs by their next run, up to $8 and after the position ($7, $6). Not all waiting runs are jobs.
-- {tag} checks the tag of each entry that is read.
select p.job_id, p.uid, version, status, spec, payload, created_at, updated_at, next_at, fits, ends
from unnest($1::int[]) u(uid) cross join lateral (
  select * from (
    select w.*, row_number() over (order by uid, next_at, job_id) = (select $4::int) as ends,
      is_job and status = any($3::int[]) and ($2::int[] is null or class_id in (select unnest($2::int[]))) and ($9::text is null or name = $9) {tag} as fits
    from (
      (select a.uid, next_at, a.job_id, true as is_job, class_id, name, version, status, spec, payload, created_at, updated_at
       from (
         select uid, next_at, job_id from agenda
         where uid = any(array[u.uid]) and (next_at, job_id) > ((select $7::bigint), (select $6::uuid)) and next_at < (select $8::bigint)
         order by uid, next_at, job_id limit (select $4::int)) a
       left join lateral (select * from jobs where jobs.job_id = a.job_id limit 1) j on true
       order by a.uid, next_at, a.job_id limit (select $4::int))
      union all
      (select uid, wanted, run_id, run_id = job_id and spec is not null and held & 4 = 0, class_id, name, job_version, 0::smallint, spec,  -- held: 4 paused; status: 0 active
         payload, null, updated_at from waiting
       where uid = any(array[u.uid]) and (wanted, run_id) > ((select $7), (select $6)) and wanted < (select $8)
       order by uid, wanted, run_id limit (select $4::int))
      order by uid, next_at, job_id limit (select $4::int)) w) w
  where fits or ends
  order by uid, next_at, job_id limit (select $5::int)) p
order by p.next_at, p.job_id limit (select $5::int)
