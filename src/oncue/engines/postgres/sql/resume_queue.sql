with gone as (delete from queues where queue = $1 returning queue)
insert into resumed (queue, at) select queue, $2 from gone on conflict (queue) do update set at = excluded.at
