-- What a key is for, and the day of its last use, counted from 1970: written at most once a day by each process.
alter table keys add column note text;
alter table keys add column last_used_on int;
create index keys_user on keys (uid);

create table key_sessions (                           -- of browsers: each has the rights of its key, and ends with the key
  session_hash bytea primary key, key_id uuid not null, created_at bigint not null, expires_at bigint not null) with (fillfactor = 50);
create index key_sessions_key on key_sessions (key_id, expires_at, session_hash);
create index key_sessions_end on key_sessions (expires_at, session_hash);

create index audit_object on audit (object_id, at, deed_id) where object_id is not null;
