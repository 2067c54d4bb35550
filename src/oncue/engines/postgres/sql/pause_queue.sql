with paused as (insert into queues (queue, paused_at) values ($1, $2) on conflict do nothing returning queue, paused_at)
insert into paused_by (queue, paused_at, uid) select queue, paused_at, $3 from paused where $3::int is not null
on conflict (queue) do update set paused_at = excluded.paused_at, uid = excluded.uid
