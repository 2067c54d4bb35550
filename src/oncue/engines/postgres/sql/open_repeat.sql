with zero as (
  update repeats_0 set body_hash = '' where uid = $1 and key_hash = $2 and body_hash = $3 and made = $4 and answer is null)
update repeats_1 set body_hash = '' where uid = $1 and key_hash = $2 and body_hash = $3 and made = $4 and answer is null
