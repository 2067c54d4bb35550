-- Actions on many objects, which schedulers work through in passes.
create table bulks (
  bulk_id blob primary key, uid integer not null, key_id blob not null, role text not null, created_at integer not null,
  ordered blob not null, total integer, state text not null, progress blob not null, turn integer not null, free_at integer not null,
  ended_at integer, why text) without rowid;
create index bulks_user on bulks (uid, bulk_id);
create index bulks_open on bulks (free_at, bulk_id) where ended_at is null;
create index bulks_open_of_user on bulks (uid) where ended_at is null;
create index bulks_ended on bulks (ended_at) where ended_at is not null;
