select task, schema, defaults, roles, announced_at from tasks order by task
