insert into members (member_id, role, version, schema, host, started_at, beat_at) values (?, ?, ?, ?, ?, ?, ?)
on conflict (member_id) do update set beat_at = excluded.beat_at
