-- When a run was let in, resumed or handed back last: it could not start before. Null: nothing has held it up. While it waits
-- for that it may be negative: when it was stored, so that who is let in by the same transaction was never held up.
alter table waiting add column free_at bigint;
alter table running add column free_at bigint;        -- or when its queue was resumed, if that was later; never negative
create table resumed (queue text primary key, at bigint not null);
