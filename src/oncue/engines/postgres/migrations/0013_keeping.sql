-- The archive: how many rows a piece had when it was archived; null: it has not been.
alter table pieces add column archived_rows bigint;

-- Users who are being forgotten, with the name they had: `users` has another one from the start.
create table forgetting (uid int primary key, user_id text not null, asked_at bigint not null, place text);
create index objects_user on objects (uid);
