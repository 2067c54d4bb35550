-- The archive. Of a piece of history: how many rows it had when it was archived; null: it has not been. Of the ledger and the
-- audit log, which are tables without pieces: rows before `until_at`, up to this id, are archived.
alter table pieces add column archived_rows integer;
create table archived (table_name text primary key, until_at integer not null, last_id integer not null) without rowid;

-- Users who are being forgotten, with the name they had: `users` has another one from the start.
create table forgetting (uid integer primary key, user_id text not null, asked_at integer not null, place text);
create index objects_user on objects (uid);
