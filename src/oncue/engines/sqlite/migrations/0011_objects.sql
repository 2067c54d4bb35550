-- Every object in storage, from before its first byte until after its deletion. `owner_id`: the job of a payload, the run of a
-- result or of a part of a log. When `gone_at` has come, the object goes unless something refers to it: sql/refers.sql.
create table objects (
  key text primary key, uid integer not null, owner_id blob not null, kind text not null, size integer not null,
  made_at integer not null, gone_at integer not null) without rowid;
create index objects_gone on objects (gone_at, key);
create index objects_owner on objects (owner_id);

create index dead_job on dead (job_id);
