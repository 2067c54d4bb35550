-- Releases the idempotency key of a refused job: there is nothing to repeat.
with zero as (delete from repeats_0 where uid = $1 and key_hash = $2 and made = $3)
delete from repeats_1 where uid = $1 and key_hash = $2 and made = $3
