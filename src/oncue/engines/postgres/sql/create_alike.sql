-- As create_plain, for one-shots of a few kinds: what those of a kind have in common is sent, read and encoded once.
with there as (
  select from unnest($4::uuid[]) i(run_id) cross join lateral (
    (select from waiting where run_id = i.run_id)
    union all (select from running where run_id = i.run_id)
    union all (select from jobs where job_id = i.run_id)
    union all (select from dead where run_id = i.run_id)
    union all (select from history where run_id = i.run_id and ended_at >= $5)
    limit 1) found
  limit 1),
given as (
  select run_id, payload, k.* from unnest($1::uuid[], $2::int[], $3::bytea[]) r(run_id, kind, payload)
  join unnest($7::int[], $8::int[], $9::int[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bytea[],
      $15::bigint[], $16::int[], $17::uuid[], $18::text[], $19::bytea[], $20::text[])
    k(kind, uid, class_id, wanted, nominal, expires_at, name, spec, at, actor, key_id, action, detail, address) using (kind)
  where not exists (select from there)),
stored as (
  insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, expires_at, name, spec, payload)
  select run_id, run_id, uid, class_id, wanted, wanted, nominal, 0, 1, expires_at, name, spec, payload from given
  returning uid, class_id),
counted as (insert into tally (uid, class_id, what, n, at) select uid, class_id, 'created', count(*), $6::bigint from stored group by uid, class_id),
told as (
  insert into audit (at, uid, key_id, action, object_id, detail, address)
  select at, actor, key_id, action, run_id, detail, address from given where at is not null)
select count(*) from stored
