select key, size, made_at, gone_at from objects where key > $1 order by key limit $2
