insert into notify_defaults (uid, changed_at, said) values ($1, $2, $3)
on conflict (uid) do update set changed_at = greatest(excluded.changed_at, notify_defaults.changed_at), said = excluded.said
