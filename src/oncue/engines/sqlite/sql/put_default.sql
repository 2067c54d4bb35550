insert into notify_defaults (uid, changed_at, said) values (?1, ?2, ?3)
on conflict do update set changed_at = max(?2, changed_at), said = ?3
