select job_id from unnest($1::int[]) u(uid) cross join lateral (
  select t.job_id from job_tags t where t.uid = u.uid and t.tag = $2 and t.job_id < $3 order by t.job_id desc limit $4) t
order by job_id desc limit $4
