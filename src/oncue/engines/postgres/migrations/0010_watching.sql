-- Who takes the next step of work that any process may do: whoever comes first, once `next_at` has come. No leader.
create table turns (name text primary key, next_at bigint not null, position bytea not null) with (fillfactor = 50);

create table findings (                               -- what the self-audit found wrong; few rows, the oldest go
  check_name text, object_id text, words text not null, first_seen bigint not null, seen_at bigint not null,
  cleared_at bigint,                                  -- when it held again
  primary key (check_name, object_id));

create table members (                                -- every process of oncue; one without a heartbeat is gone
  member_id uuid primary key, role text not null, version text not null, schema int not null, host text not null,
  started_at bigint not null, beat_at bigint not null) with (fillfactor = 50);

alter table workers add column load bytea;            -- how busy it was at its last heartbeat: domain/load.py

create index waiting_in_line on waiting (wanted, run_id) where held & 3 > 0 and held & 4 = 0;  -- held: 1 lane, 2 gate, 4 paused
