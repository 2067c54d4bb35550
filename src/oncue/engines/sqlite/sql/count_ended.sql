select state, is_job, count(*) from (
  select state, run_id = job_id and spec is not null as is_job from {piece} {who} order by {newest} limit :most)
group by 1, 2
