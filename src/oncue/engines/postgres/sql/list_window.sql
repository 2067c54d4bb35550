-- Jobs by when they run next, after the place ($3, $4); walks as in list_live. Of the runs that wait, not all are jobs.
select job_id, next_at, is_job from unnest($1::int[]) u(uid) cross join lateral (
  (select job_id, next_at, true as is_job from agenda where (uid, next_at, job_id) > (u.uid, $3::bigint, $4::uuid) and uid <= u.uid
   order by uid, next_at, job_id limit $5)
  union all
  (select run_id, wanted, run_id = job_id and spec is not null and held & 4 = 0 from waiting
   where (uid, wanted, run_id) > (u.uid, $3, $4) and uid <= u.uid
   order by uid, wanted, run_id limit $5)) p
where next_at < $2::bigint
order by next_at, job_id limit $5
