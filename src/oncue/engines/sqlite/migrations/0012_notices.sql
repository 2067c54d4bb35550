-- Failures of a job without a success in between, only for jobs whose users are told of them.
create table streaks (job_id blob primary key, since integer not null, runs integer not null) without rowid;

create table notify_defaults (                        -- whom each user wants told of jobs that do not say; a row stays when it is emptied
  uid integer primary key, changed_at integer not null, said blob not null);
create index notify_defaults_changed on notify_defaults (changed_at);

create table notify_targets (                         -- those that notices did not reach: how many in a row, and since when none is sent
  uid integer, target text, shown text not null, dead integer not null, muted_at integer, primary key (uid, target)) without rowid;

create table webhook_secrets (                        -- how often the derived secret of a URL was replaced, and when last
  uid integer, url_hash blob, generation integer not null, rotated_at integer not null, primary key (uid, url_hash)) without rowid;
