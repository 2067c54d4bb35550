-- name: put_default
insert into notify_defaults (uid, changed_at, said) values ($1, $2, $3)
on conflict (uid) do update set changed_at = greatest(excluded.changed_at, notify_defaults.changed_at), said = excluded.said

-- name: target_failed
insert into notify_targets as t (uid, target, shown, dead, muted_at) values ($1, $2, $3, 1, case when $4::int <= 1 then $5::bigint end)
on conflict (uid, target) do update set dead = t.dead + 1, shown = excluded.shown,
  muted_at = coalesce(t.muted_at, case when t.dead + 1 >= $4 then $5 end)
returning target, shown, dead, muted_at

-- name: rotate_secret
insert into webhook_secrets as s (uid, url_hash, generation, rotated_at) values ($1, $2, 1, $3)
on conflict (uid, url_hash) do update set generation = s.generation + 1, rotated_at = excluded.rotated_at
returning generation, rotated_at

-- name: begin_streaks
-- A row with -1 is this transaction's own: it becomes a streak before the end.
insert into streaks (job_id, since, runs) select j, 0, -1 from unnest($1::uuid[]) j order by j on conflict do nothing

-- name: lock_streaks
select job_id, since, runs from streaks where job_id = any($1::uuid[]) order by job_id for update

-- name: put_streaks
insert into streaks (job_id, since, runs) select * from unnest($1::uuid[], $2::bigint[], $3::int[])
on conflict (job_id) do update set since = excluded.since, runs = excluded.runs

-- name: open_notices
-- Notices that have not ended, by user: from the sums, which are up to a second old.
select uid, sum(case when what = 'created' then n when what in ('succeeded', 'dead', 'cancelled', 'expired', 'withdrawn') then -n else 0 end)::bigint as n
from counters where uid = any($1::int[]) and class_id = $2 group by uid
