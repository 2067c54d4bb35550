-- It uses both tables, so the generations do not switch meanwhile (idempotency.py says why). Each key is looked up by itself
-- ("not exists" becomes a join, which reads a whole index if the table was empty when it was last analysed).
with given as (select * from unnest($1::int[], $2::bytea[], $3::bytea[], $4::uuid[]) t(uid, key_hash, body_hash, made)),
zero as (
  insert into repeats_0 (uid, key_hash, body_hash, made)
  select * from given g where (select current from repeats_turn) = 0
    and (select made from repeats_1 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash
  on conflict (uid, key_hash) do nothing)
insert into repeats_1 (uid, key_hash, body_hash, made)
select * from given g where (select current from repeats_turn) = 1
  and (select made from repeats_0 r where r.uid = g.uid and r.key_hash = g.key_hash) is null order by uid, key_hash
on conflict (uid, key_hash) do nothing
