-- name: walk_objects
select key, size, made_at, gone_at from objects where key > ?1 order by key limit ?2

-- name: refers
-- Whether a row of this table refers to the object: its value begins with the byte 1, and has the key in it.
select 1 from {table} where {owner} and substr({column}, 1, 1) = x'01' and instr({column}, cast(?2 as blob)) limit 1
