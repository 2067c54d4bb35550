-- name: streaks
select job_id, since, runs from streaks where job_id in carray(?1)

-- name: put_default
insert into notify_defaults (uid, changed_at, said) values (?1, ?2, ?3)
on conflict do update set changed_at = max(?2, changed_at), said = ?3

-- name: target_failed
insert into notify_targets (uid, target, shown, dead, muted_at) values (?1, ?2, ?3, 1, iif(?4 <= 1, ?5, null))
on conflict do update set dead = dead + 1, shown = ?3, muted_at = coalesce(muted_at, iif(dead + 1 >= ?4, ?5, null))
returning target, shown, dead, muted_at

-- name: rotate_secret
insert into webhook_secrets (uid, url_hash, generation, rotated_at) values (?1, ?2, 1, ?3)
on conflict do update set generation = generation + 1, rotated_at = ?3 returning generation, rotated_at

-- name: put_streak
insert into streaks (job_id, since, runs) values (?1, ?2, ?3) on conflict do update set since = ?2, runs = ?3

-- name: open_notices
select coalesce(sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end), 0)
from counters where uid = ?1 and class_id = ?2
