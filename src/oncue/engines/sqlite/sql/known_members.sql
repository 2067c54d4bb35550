select member_id, role, version, schema, host, started_at, beat_at from members order by started_at, member_id
