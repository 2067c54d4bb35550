select i.job_id, n.wanted from unnest($1::uuid[]) i(job_id) cross join lateral (
  select wanted from (
    (select wanted from waiting where run_id = i.job_id)
    union all (select wanted from waiting where job_id = i.job_id and job_id <> run_id and origin is null and token = 0
               order by wanted limit 1)) p
  order by wanted limit 1) n
