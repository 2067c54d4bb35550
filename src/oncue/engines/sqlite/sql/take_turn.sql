-- A time further ahead than a step is a clock's that was set back.
insert into turns (name, next_at, position) values (?1, ?2 + ?3, x'')
on conflict (name) do update set next_at = excluded.next_at where turns.next_at <= ?2 or turns.next_at > ?2 + ?3
returning position
