-- When a run was let in, resumed or handed back last: it could not start before. Null: nothing has held it up. While it waits
-- for that it may be negative: when it was stored, so that who is let in by the same transaction was never held up.
alter table runs add column free_at integer;
create table resumed (queue text primary key, at integer not null) without rowid;
