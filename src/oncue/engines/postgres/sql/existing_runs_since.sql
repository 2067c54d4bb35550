-- As existing_runs, but only the partitions of history since an instant are searched.
select i.run_id from unnest($1::uuid[]) i(run_id) cross join lateral (
  (select from waiting where run_id = i.run_id)
  union all (select from running where run_id = i.run_id)
  union all (select from dead where run_id = i.run_id)
  union all (select from history where run_id = i.run_id and ended_at >= $2)
  limit 1) found
