-- Failures of a job without a success in between, only for jobs whose users are told of them.
create table streaks (job_id uuid primary key, since bigint not null, runs int not null) with (fillfactor = 50);

create table notify_defaults (                        -- whom each user wants told of jobs that do not say; a row stays when it is emptied
  uid int primary key, changed_at bigint not null, said bytea not null) with (fillfactor = 50);
create index notify_defaults_changed on notify_defaults (changed_at);

create table notify_targets (                         -- those that notices did not reach: how many in a row, and since when none is sent
  uid int, target text, shown text not null, dead int not null, muted_at bigint, primary key (uid, target));

create table webhook_secrets (                        -- how often the derived secret of a URL was replaced, and when last
  uid int, url_hash bytea, generation int not null, rotated_at bigint not null, primary key (uid, url_hash));
