-- Stores all of these one-shots or none, with their audit entries: one statement is one round trip and one commit. If one of them
-- exists already nothing is stored, and the caller looks closer; a caller that has looked before gives no ids to look for ($18).
with there as (
  select from unnest($18::uuid[]) i(run_id) cross join lateral (
    (select from waiting where run_id = i.run_id)
    union all (select from running where run_id = i.run_id)
    union all (select from jobs where job_id = i.run_id)
    union all (select from dead where run_id = i.run_id)
    union all (select from history where run_id = i.run_id and ended_at >= $10)
    limit 1) found
  limit 1),
stored as (
  insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, expires_at, name, spec, payload)
  select run_id, run_id, uid, class_id, wanted, wanted, nominal, 0, 1, expires_at, name, spec, payload
  from unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bytea[], $9::bytea[])
    t(run_id, uid, class_id, wanted, nominal, expires_at, name, spec, payload)
  where not exists (select from there)
  returning uid, class_id),
counted as (insert into tally (uid, class_id, what, n, at) select uid, class_id, 'created', count(*), $19::bigint from stored group by uid, class_id),
told as (
  insert into audit (at, uid, key_id, action, object_id, detail, address)
  select * from unnest($11::bigint[], $12::int[], $13::uuid[], $14::text[], $15::uuid[], $16::bytea[], $17::text[]) d
  where not exists (select from there))
select count(*) from stored
