-- What a key is for, and the day of its last use, counted from 1970: written at most once a day by each process.
alter table keys add column note text;
alter table keys add column last_used_on integer;
create index keys_user on keys (uid);

create table key_sessions (                           -- of browsers: each has the rights of its key, and ends with the key
  session_hash blob primary key, key_id blob not null, created_at integer not null, expires_at integer not null) without rowid;
create index key_sessions_key on key_sessions (key_id, expires_at, session_hash);
create index key_sessions_end on key_sessions (expires_at, session_hash);

create index audit_object on audit (object_id, at, deed_id) where object_id is not null;
