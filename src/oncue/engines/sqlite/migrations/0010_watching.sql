-- Who takes the next step of work that any process may do: whoever comes first, once `next_at` has come. No leader.
create table turns (name text primary key, next_at integer not null, position blob not null) without rowid;

create table findings (                               -- what the self-audit found wrong; few rows, the oldest go
  check_name text, object_id text, words text not null, first_seen integer not null, seen_at integer not null,
  cleared_at integer,                                 -- when it held again
  primary key (check_name, object_id)) without rowid;

create table members (                                -- every process of oncue; one without a heartbeat is gone
  member_id blob primary key, role text not null, version text not null, schema integer not null, host text not null,
  started_at integer not null, beat_at integer not null) without rowid;

alter table workers add column load blob;             -- how busy it was at its last heartbeat: domain/load.py

create index runs_in_line on runs (wanted, run_id) where held & 3 > 0 and held & 4 = 0;  -- held: 1 lane, 2 gate, 4 paused
