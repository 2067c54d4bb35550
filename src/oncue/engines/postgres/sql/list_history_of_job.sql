select * from (
  (select * from ended_runs where run_id = $1 limit 1)
  union all
  (select * from ended_runs where job_id = $1 and job_id <> run_id and (ended_at, run_id) < ($2::bigint, $3::uuid)
   order by ended_at desc, run_id desc limit $4)) p
where job_id = $1 and (ended_at, run_id) < ($2::bigint, $3::uuid)
order by ended_at desc, run_id desc limit $4
