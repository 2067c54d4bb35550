-- Failures of one kind, counted together: appended by whoever ends an attempt, added up by schedulers.
create table error_counts (
  uid integer not null, fingerprint integer not null, task text not null, error_type text not null, sample text not null,
  n integer not null, first_at integer not null, last_at integer not null);
create table errors (
  uid integer, fingerprint integer, task text not null, error_type text not null, sample text not null, n integer not null,
  first_seen integer not null, last_seen integer not null, hours blob not null, primary key (uid, fingerprint)) without rowid;
create index errors_user on errors (uid, last_seen, fingerprint);
create index errors_newest on errors (last_seen, uid, fingerprint);

alter table dead add column fingerprint integer;
create index dead_group on dead (uid, fingerprint, ended_at, run_id) where fingerprint is not null;
create index dead_kind on dead (fingerprint, ended_at, run_id) where fingerprint is not null;
