-- Workers that are registered stay, also those that an older process registered.
with alive as (
  insert into worker_names (worker_id, name, seen_at) select worker_id, name, $1::bigint from workers order by worker_id
  on conflict (worker_id) do update set seen_at = excluded.seen_at)
delete from worker_names where worker_id = any(array(
  select worker_id from worker_names n where seen_at < $2 and not exists (select from workers w where w.worker_id = n.worker_id) limit $3))
