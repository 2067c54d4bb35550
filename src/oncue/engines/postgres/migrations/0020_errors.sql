-- Failures of one kind, counted together: appended by whoever ends an attempt, added up by schedulers.
create table error_counts (
  uid int not null, fingerprint bigint not null, task text not null, error_type text not null, sample text not null,
  n int not null, first_at bigint not null, last_at bigint not null);
create table errors (
  uid int, fingerprint bigint, task text not null, error_type text not null, sample text not null, n bigint not null,
  first_seen bigint not null, last_seen bigint not null, hours bytea not null, primary key (uid, fingerprint)) with (fillfactor = 50);
create index errors_user on errors (uid, last_seen, fingerprint);
create index errors_newest on errors (last_seen, uid, fingerprint);

alter table dead add column fingerprint bigint;
create index dead_group on dead (uid, fingerprint, ended_at, run_id) where fingerprint is not null;
create index dead_kind on dead (fingerprint, ended_at, run_id) where fingerprint is not null;
