select name, next_at, position from turns order by name
