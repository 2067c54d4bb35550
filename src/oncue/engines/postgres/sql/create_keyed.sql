-- Stores these one-shots with their idempotency keys and audit entries, and returns the ids of the stored ones. A job whose key
-- another request has, or that exists already ($19: none of them is older), is left for the caller to look at: the other request
-- may have ended after this statement began. PostgreSQL locks all tables of a statement before it reads, and the switch of the
-- generations empties one of these tables: a statement that waited for it sees the new current one.
with given as (
  select * from unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bytea[], $9::bytea[],
      $10::bytea[], $11::bytea[], $12::bigint[], $13::int[], $14::uuid[], $15::text[], $16::uuid[], $17::bytea[], $18::text[]) with ordinality
    t(run_id, uid, class_id, wanted, nominal, expires_at, name, spec, payload, key_hash, body_hash,
      at, actor, key_id, action, object_id, detail, address, place)),
zero as (
  insert into repeats_0 (uid, key_hash, body_hash, made)
  select uid, key_hash, body_hash, run_id from given g where key_hash is not null and (select current from repeats_turn) = 0
    and (select made from repeats_1 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash, place
  on conflict (uid, key_hash) do nothing returning made),
one as (
  insert into repeats_1 (uid, key_hash, body_hash, made)
  select uid, key_hash, body_hash, run_id from given g where key_hash is not null and (select current from repeats_turn) = 1
    and (select made from repeats_0 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash, place
  on conflict (uid, key_hash) do nothing returning made),
fresh as (
  select * from given g
  where (key_hash is null or run_id in (select made from zero union all select made from one))
    and (select true from (
      (select from waiting where run_id = g.run_id)
      union all (select from running where run_id = g.run_id)
      union all (select from jobs where job_id = g.run_id)
      union all (select from dead where run_id = g.run_id)
      union all (select from history where run_id = g.run_id and ended_at >= $19)
      limit 1) there) is null),
stored as (
  insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, expires_at, name, spec, payload)
  select run_id, run_id, uid, class_id, wanted, wanted, nominal, 0, 1, expires_at, name, spec, payload from fresh
  returning run_id, uid, class_id),
counted as (insert into tally (uid, class_id, what, n, at) select uid, class_id, 'created', count(*), $20::bigint from stored group by uid, class_id),
told as (
  insert into audit (at, uid, key_id, action, object_id, detail, address)
  select at, actor, key_id, action, object_id, detail, address from fresh where at is not null)
select run_id from stored
