-- Actions on many objects, which schedulers work through in passes.
create table bulks (
  bulk_id uuid primary key, uid int not null, key_id uuid not null, role text not null, created_at bigint not null,
  ordered bytea not null, total int, state text not null, progress bytea not null, turn int not null, free_at bigint not null,
  ended_at bigint, why text) with (fillfactor = 50);
create index bulks_user on bulks (uid, bulk_id);
create index bulks_open on bulks (free_at, bulk_id) where ended_at is null;
create index bulks_open_of_user on bulks (uid) where ended_at is null;
create index bulks_ended on bulks (ended_at) where ended_at is not null;
