-- Every object in storage, from before its first byte until after its deletion. `owner_id`: the job of a payload, the run of a
-- result or of a part of a log. When `gone_at` has come, the object goes unless something refers to it: sql/look_at_objects.sql.
create table objects (
  key text not null, uid int not null, owner_id uuid not null, kind text not null, size bigint not null,
  made_at bigint not null, gone_at bigint not null) with (fillfactor = 70);
create index objects_gone on objects (gone_at, key);
create index objects_owner on objects (owner_id);
alter table objects add primary key (key);

create index dead_job on dead (job_id);

-- Whether a stored value is a reference to this object: it begins with the byte 1, and has the key in it.
create function refers_to(stored bytea, key text) returns boolean language sql immutable parallel safe
  return substr(stored, 1, 1) = '\x01' and position(convert_to(key, 'UTF8') in stored) > 0;
