insert into notify_targets (uid, target, shown, dead, muted_at) values (?1, ?2, ?3, 1, iif(?4 <= 1, ?5, null))
on conflict do update set dead = dead + 1, shown = ?3, muted_at = coalesce(muted_at, iif(dead + 1 >= ?4, ?5, null))
returning target, shown, dead, muted_at
