select name, spec from {table} where run_id = ? and spec is not null
