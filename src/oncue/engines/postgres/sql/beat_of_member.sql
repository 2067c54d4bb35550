insert into members (member_id, role, version, schema, host, started_at, beat_at) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (member_id) do update set beat_at = excluded.beat_at
