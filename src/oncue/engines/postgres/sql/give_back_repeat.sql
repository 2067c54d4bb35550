-- Of a job that was refused: there is nothing to repeat.
with zero as (delete from repeats_0 where uid = $1 and key_hash = $2 and made = $3)
delete from repeats_1 where uid = $1 and key_hash = $2 and made = $3
