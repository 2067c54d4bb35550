-- One partition of history, in the order in which runs ended: their ids are anywhere. The row of a one-shot is also the finished job.
create table {piece} (
  run_id blob not null, job_id blob not null, uid integer not null, class_id integer not null, state integer not null,
  wanted integer not null, nominal integer, trigger integer not null, job_version integer not null, token integer not null,
  failures integer not null, losses integer not null, parent blob, started_at integer, ended_at integer not null, worker_id blob,
  error_type text, error text, result blob, attempts blob, name text, spec blob, payload blob);
create unique index {piece}_run on {piece} (run_id);
create index {piece}_user on {piece} (uid, ended_at, run_id);
create index {piece}_name on {piece} (uid, name, ended_at, run_id) where name is not null;
create index {piece}_job on {piece} (job_id, ended_at, run_id) where job_id <> run_id;
