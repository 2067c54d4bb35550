-- One conditional write, so that of many callers one gets a row. A time further ahead than a step is a clock's that was set back.
insert into turns as t (name, next_at, position) values ($1, $2::bigint + $3::bigint, '')
on conflict (name) do update set next_at = excluded.next_at where t.next_at <= $2 or t.next_at > $2 + $3
returning position
