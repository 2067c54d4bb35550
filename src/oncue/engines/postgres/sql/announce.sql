insert into tasks (task, schema, defaults, roles, announced_at) values ($1, $2, $3, $4, $5)
on conflict (task) do update set schema = excluded.schema, defaults = excluded.defaults, roles = excluded.roles, announced_at = excluded.announced_at
where tasks.announced_at <= excluded.announced_at
