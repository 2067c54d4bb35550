insert into notify_targets as t (uid, target, shown, dead, muted_at) values ($1, $2, $3, 1, case when $4::int <= 1 then $5::bigint end)
on conflict (uid, target) do update set dead = t.dead + 1, shown = excluded.shown,
  muted_at = coalesce(t.muted_at, case when t.dead + 1 >= $4 then $5 end)
returning target, shown, dead, muted_at
