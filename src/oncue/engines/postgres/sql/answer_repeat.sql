-- With the body: a request that was refused at the same time may have left the key open.
with zero as (
  update repeats_0 set body_hash = $3, answer = $5 where uid = $1 and key_hash = $2 and made = $4 and answer is null)
update repeats_1 set body_hash = $3, answer = $5 where uid = $1 and key_hash = $2 and made = $4 and answer is null
