-- Times are microseconds since 1970 UTC, ids are 16 bytes; `select datetime(due / 1e6, 'unixepoch'), hex(run_id) from runs` shows both.
create table users (uid integer primary key, user_id text not null unique, created_at integer not null);

create table keys (
  key_id blob primary key, key_hash blob not null unique, uid integer not null, role text not null,
  created_at integer not null, expires_at integer, revoked_at integer) without rowid;

create table tasks (                                  -- outlives workers: a known task stays known while they are down
  task text primary key, schema blob not null, defaults blob not null, roles text not null, announced_at integer not null) without rowid;

create table classes (
  class_id integer primary key, task text not null, queue text not null, priority integer not null, labels text not null,
  cpu_milli integer not null, memory_mb integer not null, slots integer not null,
  unique (task, queue, priority, labels, cpu_milli, memory_mb, slots));

create table queues (queue text primary key, paused_at integer not null) without rowid;

create table workers (
  worker_id blob primary key, name text not null, host text not null, lease integer not null, started_at integer not null,
  beat_at integer not null, draining integer not null, classes text not null, info blob) without rowid;

create table jobs (                                   -- recurring jobs only: a one-shot's definition sits in its run
  job_id blob primary key, uid integer not null, version integer not null, status integer not null, class_id integer not null,
  name text, created_at integer not null, updated_at integer not null, spec blob not null, payload blob) without rowid;
create index jobs_newest on jobs (uid, job_id);
create index jobs_name on jobs (uid, name, job_id) where name is not null;
create index jobs_open on jobs (uid) where status < 2;  -- status: 2 finished

create table job_versions (                           -- superseded definitions, for the runs that started with them
  job_id blob, version integer, until integer not null, spec blob not null, payload blob, primary key (job_id, version)) without rowid;

create table job_tags (uid integer, tag text, job_id blob, primary key (uid, tag, job_id)) without rowid;
create index job_tags_job on job_tags (job_id);

create table job_keys (                               -- who has or had it last; of a one-shot, a digest of its definition
  uid integer, key text, job_id blob not null, definition blob, primary key (uid, key)) without rowid;

create table quotas (                                 -- no user has more than this; 2^62: nobody has counted
  uid integer primary key, jobs integer not null, payload integer not null);

create table agenda (                                 -- the cursor of each recurring job, apart: planning touches no definition
  job_id blob primary key, uid integer not null, next_at integer not null, floor integer not null, planned integer not null) without rowid;
create index agenda_next on agenda (next_at, job_id);
create index agenda_window on agenda (uid, next_at, job_id);

-- Every run that has not ended. A claim does not touch this row, which is wide and in several indexes: whoever is in `running`
-- runs, whoever is not waits. Measured: a third of the time of an update that takes the row out of an index. Each full index costs
-- a tenth of claim and settle; one in any other order than that of ids or due instants halves the rate of creating.
create table runs (
  run_id blob primary key, job_id blob not null, uid integer not null, class_id integer not null,
  due integer not null,                               -- may start from here on
  wanted integer not null,                            -- the occurrence plus jitter: order in a lane, and what lateness counts from
  nominal integer, origin blob,                       -- origin null: its schedule asked for it
  trigger integer not null, job_version integer not null,
  token integer not null,                             -- as of the last attempt: while it runs, `running` has the newer one
  failures integer not null, losses integer not null, held integer not null, lane integer, gate integer, meter integer,
  expires_at integer, updated_at integer, parent blob, name text, attempts blob, checkpoint blob, spec blob, payload blob,
  tried_at integer) without rowid;                    -- when the last attempt ended, of those that are tried again
create index runs_due on runs (class_id, due, run_id, uid) where held = 0;  -- held: 0 no
create index runs_newest on runs (uid, run_id);
create index runs_job on runs (job_id, run_id) where job_id <> run_id;
create index runs_name on runs (uid, name, run_id) where name is not null;
create index runs_lane on runs (lane, held & 5, wanted, run_id) where lane is not null;  -- held: 1 lane, 4 paused
create index runs_gate on runs (gate, held & 7, wanted, run_id) where gate is not null;  -- held: 1 lane, 2 gate, 4 paused
create index runs_meter on runs (meter, held, due, run_id) where meter is not null;
create index runs_overdue on runs (wanted, run_id) where held & 5 = 1 and trigger = 0 and job_id <> run_id;  -- trigger: 0 schedule; held: 1 lane, 4 paused
create index runs_held on runs (due, run_id, uid) where held > 0 and run_id = job_id;  -- held: 0 no
create index runs_tried on runs (uid, tried_at) where tried_at is not null;
create index runs_expires on runs (expires_at) where expires_at is not null;

create table running (
  run_id blob primary key, token integer not null, worker_id blob not null, claimed_at integer not null,
  cancel_at integer, progress blob, checkpoint blob) without rowid;
create index running_mail on running (worker_id) where cancel_at is not null;

create table lanes (lane integer primary key, width integer not null);          -- gates only: a serial lane admits one

create table meters (                                 -- so many starts in any `per`
  meter integer primary key, starts integer not null, per integer not null,
  free_at integer not null,                           -- no start is left before then, as of the last time one was granted
  next_at integer not null,                           -- no run can be granted a start before then; 2^62: none waits for one
  check_at integer not null default 4611686018427387904,    -- see then whether the starts given were made use of
  given integer not null default 0);                  -- its rows in `grants`
create index meters_next on meters (next_at, meter);
create index meters_check on meters (check_at, meter);

create table grants (                                 -- starts given, as long as they count
  meter integer not null, at integer not null, run_id blob not null,
  token integer not null, due integer not null);      -- of the run as it waited for it
create index grants_newest on grants (meter, at);

create table pieces (name text primary key, from_at integer not null, until_at integer not null);   -- of history: see sql/piece.sql

create table dead (                                   -- open dead letters, whole: history may drop their runs
  run_id blob primary key, job_id blob not null, uid integer not null, class_id integer not null, state integer not null,
  wanted integer not null, nominal integer, trigger integer not null, job_version integer not null, token integer not null,
  failures integer not null, losses integer not null, parent blob, started_at integer, ended_at integer not null, worker_id blob,
  error_type text, error text, result blob, attempts blob, name text, spec blob, payload blob) without rowid;
create index dead_newest on dead (ended_at, run_id);
create index dead_user on dead (uid, ended_at, run_id);

create table ledger (                                 -- only what did not become a run, as stretches
  entry_id integer primary key, job_id blob not null, first_at integer not null, last_at integer not null, n integer not null,
  outcome text not null, reason text not null, run_id blob, at integer not null);
create index ledger_job on ledger (job_id, last_at, entry_id);
create index ledger_at on ledger (at);

create table audit (
  deed_id integer primary key, at integer not null, uid integer, key_id blob, action text not null, object_id blob, detail blob, address text);
create index audit_newest on audit (at, deed_id);
create index audit_user on audit (uid, at, deed_id);

create table run_logs (run_id blob, number integer, text blob not null, at integer not null, primary key (run_id, number)) without rowid;
create index run_logs_at on run_logs (at);

-- Idempotency keys in two generations: `repeats_turn` says which one gets new ones, and the other is emptied whole.
create table repeats_0 (
  uid integer, key_hash blob, body_hash blob not null, made blob not null, answer blob, primary key (uid, key_hash)) without rowid;
create table repeats_1 (
  uid integer, key_hash blob, body_hash blob not null, made blob not null, answer blob, primary key (uid, key_hash)) without rowid;
create table repeats_turn (current integer not null, since integer not null);
insert into repeats_turn values (0, 0);

create table counters (uid integer, class_id integer, what text, n integer not null, primary key (uid, class_id, what)) without rowid;

-- Runs with the columns of RunView, and jobs whatever their kind: what the reading statements select from.
create view live_runs as select r.run_id, r.job_id, r.uid, r.class_id, x.run_id is not null as state, r.due, r.wanted, r.nominal, r.trigger,
  coalesce(x.token, r.token) as token, r.failures, r.losses, r.job_version, r.held, x.claimed_at as started_at, null as ended_at, x.cancel_at,
  x.worker_id, null as error_type, null as error, null as result, r.attempts, r.payload, r.spec, x.progress, r.parent
  from runs r left join running x on x.run_id = r.run_id;
create view live_one_shots as select r.run_id as job_id, r.uid, r.job_version as version,
  iif(x.cancel_at is null, r.held & 4 > 0, 3) as status, r.class_id, r.name,  -- held: 4 paused; status: 3 cancelled
  null as created_at, r.updated_at, r.spec, r.payload, iif(x.run_id is null, r.due, null) as next_at,
  x.run_id is not null or r.failures + r.losses > 0 as tried
  from runs r left join running x on x.run_id = r.run_id where r.run_id = r.job_id and r.spec is not null;
create view recurring_jobs as select j.job_id, j.uid, j.version, j.status, j.class_id, j.name, j.created_at, j.updated_at, j.spec, j.payload,
  nullif(a.next_at, 4611686018427387904) as next_at from jobs j left join agenda a on a.job_id = j.job_id;
