select i.run_id from unnest($1::uuid[]) i(run_id) cross join lateral (
  (select from waiting where run_id = i.run_id)
  union all (select from running where run_id = i.run_id)
  union all (select from dead where run_id = i.run_id)
  union all (select from history where run_id = i.run_id)
  limit 1) found
