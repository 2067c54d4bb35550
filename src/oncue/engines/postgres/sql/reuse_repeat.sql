-- Of several requests with a key that was left open one gets it; the others find it taken.
with zero as (
  update repeats_0 set body_hash = $3 where uid = $1 and key_hash = $2 and body_hash = '' and answer is null returning made),
one as (
  update repeats_1 set body_hash = $3 where uid = $1 and key_hash = $2 and body_hash = '' and answer is null returning made)
select made from zero union all select made from one
