-- A job cannot have ended before it was created: older partitions of history are not read. Each job by its key: for all of
-- them at once the planner reads a whole index, if the table was empty when it was last analysed.
select i.job_id from unnest($1::uuid[]) i(job_id) cross join lateral (
  (select from waiting where run_id = i.job_id)
  union all (select from running where run_id = i.job_id)
  union all (select from jobs where job_id = i.job_id)
  union all (select from dead where run_id = i.job_id)
  union all (select from history where run_id = i.job_id and ended_at >= $2)
  limit 1) found
