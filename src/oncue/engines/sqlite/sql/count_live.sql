select state, is_job, paused, later, tries, stopping, count(*) from (
  select state, run_id = job_id and spec is not null as is_job, held & 4 > 0 as paused, due > :now as later, failures + losses > 0 as tries,  -- held: 4 paused
    cancel_at is not null as stopping from live_runs {who} order by run_id desc limit :most)
group by 1, 2, 3, 4, 5, 6
