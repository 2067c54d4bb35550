insert into tasks (task, schema, defaults, roles, announced_at) values (?, ?, ?, ?, ?)
on conflict do update set schema = excluded.schema, defaults = excluded.defaults, roles = excluded.roles, announced_at = excluded.announced_at
where excluded.announced_at >= tasks.announced_at
