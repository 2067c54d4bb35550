-- One statement, so that a reference that moves from one table to another meanwhile is seen in one of them.
with due as materialized (
  select key, uid, owner_id, kind, made_at from objects where gone_at <= $1 order by gone_at, key limit $2 for update skip locked),
looked as materialized (
  select key, made_at, case kind
    when 'payload' then
      exists (select from jobs x where x.job_id = owner_id and refers_to(x.payload, key))
      or exists (select from job_versions x where x.job_id = owner_id and refers_to(x.payload, key))
      or exists (select from waiting x where x.run_id = owner_id and refers_to(x.payload, key))
      or exists (select from waiting x where x.job_id = owner_id and x.job_id <> x.run_id and refers_to(x.payload, key))
      or exists (select from running x where x.run_id = owner_id and refers_to(x.payload, key))
      or exists (select from running x where x.job_id = owner_id and x.job_id <> x.run_id and refers_to(x.payload, key))
      or exists (select from dead x where x.job_id = owner_id and refers_to(x.payload, key))
      or exists (select from history x where x.run_id = owner_id and refers_to(x.payload, key))
      or exists (select from history x where x.job_id = owner_id and x.job_id <> x.run_id and refers_to(x.payload, key))
    when 'result' then
      exists (select from running x where x.run_id = owner_id) or exists (select from waiting x where x.run_id = owner_id)
      or exists (select from history x where x.run_id = owner_id and refers_to(x.result, key))
    when 'log' then
      exists (select from running x where x.run_id = owner_id) or exists (select from waiting x where x.run_id = owner_id)
      or exists (select from run_logs x where x.run_id = owner_id and refers_to(x.text, key))
    else true  -- of a newer version: it knows where to look
    end as referred
  from due),
again as (
  update objects o set gone_at = $1 + least(greatest($1 - l.made_at, $3), $4) from looked l where o.key = l.key and l.referred)
select key, referred from looked
