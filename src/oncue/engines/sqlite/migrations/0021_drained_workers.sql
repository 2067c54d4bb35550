-- Since when an administrator has it drained: it claims nothing until it is resumed. Null: nobody has.
alter table workers add column drain_at integer;

-- Who paused a queue. A table of its own, because 0.1.0 fills `queues` without naming columns; and with the instant of that
-- pause, because 0.1.0 resumes without removing the line.
create table paused_by (queue text primary key, paused_at integer not null, uid integer not null) without rowid;
