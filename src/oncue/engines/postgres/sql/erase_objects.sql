update objects set gone_at = 0 where key = any(array(select key from objects where uid = $1 and gone_at > 0 limit $2))
