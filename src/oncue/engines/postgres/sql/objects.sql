-- name: add_objects
insert into objects (key, uid, owner_id, kind, size, made_at, gone_at)
select key, uid, owner_id, kind, size, $6, $7 from unnest($1::text[], $2::int[], $3::uuid[], $4::text[], $5::bigint[])
  as given (key, uid, owner_id, kind, size)
on conflict do nothing

-- name: look_at_objects
-- A subquery with a limit is looked up for each object: the planner could turn `exists` into a walk through the whole table.
-- One statement, so that a reference that moves from one table to another meanwhile is seen in one of them.
with due as materialized (
  select key, uid, owner_id, kind, made_at from objects where gone_at <= $1 order by gone_at, key limit $2 for update skip locked),
looked as materialized (
  select key, made_at, case kind
    when 'payload' then
      coalesce((select true from jobs x where x.job_id = owner_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from job_versions x where x.job_id = owner_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from waiting x where x.run_id = owner_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from waiting x where x.job_id = owner_id and x.job_id <> x.run_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from running x where x.run_id = owner_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from running x where x.job_id = owner_id and x.job_id <> x.run_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from dead x where x.job_id = owner_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from history x where x.run_id = owner_id and refers_to(x.payload, key) limit 1), false)
      or coalesce((select true from history x where x.job_id = owner_id and x.job_id <> x.run_id and refers_to(x.payload, key) limit 1), false)
    when 'result' then
      coalesce((select true from running x where x.run_id = owner_id limit 1), false) or coalesce((select true from waiting x where x.run_id = owner_id limit 1), false)
      or coalesce((select true from history x where x.run_id = owner_id and refers_to(x.result, key) limit 1), false)
    when 'log' then
      coalesce((select true from running x where x.run_id = owner_id limit 1), false) or coalesce((select true from waiting x where x.run_id = owner_id limit 1), false)
      or coalesce((select true from run_logs x where x.run_id = owner_id and refers_to(x.text, key) limit 1), false)
    else true  -- of a newer version: it knows where to look
    end as referred
  from due),
again as (
  update objects o set gone_at = $1 + least(greatest($1 - l.made_at, $3), $4) from looked l where o.key = l.key and l.referred)
select key, referred from looked

-- name: walk_objects
select key, size, made_at, gone_at from objects where key > $1 order by key limit $2

-- name: attach
update history set result = $4 where run_id = $1 and token = $2 and result = $3 returning run_id
