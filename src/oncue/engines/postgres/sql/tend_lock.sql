-- Locks each lane in order, creating new ones. Unlike "do nothing" and a lock after, this cannot lose a lane that is being removed.
insert into lanes (lane, width) select l, w from unnest($1::bigint[], $2::int[]) as t(l, w) order by l
on conflict (lane) do update set width = coalesce(nullif(excluded.width, 0), lanes.width)
