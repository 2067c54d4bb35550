create table worker_names (                           -- outlive workers, as long as the history that refers to them
  worker_id blob primary key, name text not null, seen_at integer not null) without rowid;
create index worker_names_seen on worker_names (seen_at);
insert into worker_names select worker_id, name, beat_at from workers;
