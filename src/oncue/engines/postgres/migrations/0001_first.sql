-- Times are microseconds since 1970 UTC; `select readable(due) from waiting` shows them as people read them.
--
-- A primary key is made after the other indexes, wherever one of those has its column, too. A queue that was just vacuumed
-- while it stood empty counts as empty until the next time, and then every index costs the same in the planner's eyes: it
-- takes the one made last, and if that is not the key, claiming a thousand runs takes 1,500 ms instead of 11.
create function readable(at bigint) returns timestamptz language sql immutable parallel safe
  return timestamptz 'epoch' + at * interval '1 microsecond';

create table users (
  uid int generated always as identity primary key,
  user_id text not null unique,
  created_at bigint not null);

create table keys (
  key_id uuid primary key, key_hash bytea not null unique, uid int not null references users, role text not null,
  created_at bigint not null, expires_at bigint, revoked_at bigint);

create table tasks (                                  -- outlives workers: a known task stays known while they are down
  task text primary key, schema bytea not null, defaults bytea not null, roles text[] not null, announced_at bigint not null);

create table classes (
  class_id int generated always as identity primary key,
  task text not null, queue text not null, priority smallint not null, labels text[] not null,
  cpu_milli int not null, memory_mb int not null, slots int not null,
  unique (task, queue, priority, labels, cpu_milli, memory_mb, slots));

create table queues (queue text primary key, paused_at bigint not null);

create table workers (
  worker_id uuid primary key, name text not null, host text not null, lease bigint not null, started_at bigint not null,
  beat_at bigint not null, draining boolean not null, classes int[] not null, info bytea) with (fillfactor = 50);

create table jobs (                                   -- recurring jobs only: a one-shot's definition sits in its run
  job_id uuid not null, uid int not null, version int not null, status smallint not null,
  class_id int not null, name text, spec bytea not null, payload bytea, created_at bigint not null, updated_at bigint not null);
create index jobs_newest on jobs (uid, status, job_id);
create index jobs_name on jobs (uid, name, job_id) where name is not null;
alter table jobs add primary key (job_id);

create table job_versions (                           -- superseded definitions, for the runs that started with them
  job_id uuid, version int, spec bytea not null, payload bytea, until bigint not null, primary key (job_id, version));

create table job_tags (uid int, tag text, job_id uuid, primary key (uid, tag, job_id));

create table job_keys (                               -- who has or had it last; of a one-shot, a digest of its definition
  uid int, key text, job_id uuid not null, definition bytea, primary key (uid, key));

create table quotas (                                 -- no user has more than this; the lock under which it is raised
  uid int primary key,
  jobs bigint not null default 4611686018427387904,   -- that have not ended; 2^62: nobody has counted
  payload bigint not null default 4611686018427387904) with (fillfactor = 50);

create table agenda (                                 -- the cursor of each recurring job, apart: planning touches no definition
  job_id uuid not null, uid int not null, next_at bigint not null, floor bigint not null, planned int not null)
  with (fillfactor = 70);
create index agenda_next on agenda (next_at, job_id);
create index agenda_window on agenda (uid, next_at, job_id);
alter table agenda add primary key (job_id);

create table waiting (
  run_id uuid not null, job_id uuid not null, uid int not null, class_id int not null,
  due bigint not null,                                -- may start from here on
  wanted bigint not null,                             -- the occurrence plus jitter: order in a lane, and what lateness counts from
  nominal bigint, origin uuid,                        -- origin null: its schedule asked for it
  trigger smallint not null, job_version int not null, token int not null default 0,
  failures smallint not null default 0, losses smallint not null default 0,
  held smallint not null default 0, lane bigint, gate bigint, meter bigint,
  expires_at bigint, updated_at bigint, parent uuid, name text,
  attempts bytea, checkpoint bytea, spec bytea, payload bytea,
  tried_at bigint)                                    -- when the last attempt ended, of those that are tried again
  with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
create index waiting_due on waiting (class_id, due, run_id) where held = 0;  -- held: 0 no
create index waiting_newest on waiting (uid, run_id) where run_id = job_id;
create index waiting_paused on waiting (uid, run_id) where run_id = job_id and held & 4 > 0;  -- held: 4 paused
create index waiting_window on waiting (uid, wanted, run_id);
create index waiting_job on waiting (job_id, wanted) where job_id <> run_id;
create index waiting_name on waiting (uid, name, run_id) where name is not null;
create index waiting_lane on waiting (lane, (held & 4), wanted, run_id) where lane is not null and held & 1 = 1;  -- held: 1 lane, 4 paused; in line
create index waiting_gate on waiting (gate, (held & 5), wanted, run_id) where gate is not null and held & 2 = 2;  -- held: 1 lane, 2 gate, 4 paused
create index waiting_in_lane on waiting (lane) where lane is not null and held & 1 = 0;  -- held: 1 lane; let in
create index waiting_in_gate on waiting (gate) where gate is not null and held & 2 = 0;  -- held: 2 gate
create index waiting_overdue on waiting (wanted, run_id) where held & 5 = 1 and trigger = 0 and job_id <> run_id;  -- trigger: 0 schedule; held: 1 lane, 4 paused
create index waiting_meter on waiting (meter, held, due, run_id) where meter is not null;
create index waiting_tried on waiting (uid, tried_at) where tried_at is not null;
create index waiting_expires on waiting (expires_at) where expires_at is not null;
alter table waiting add primary key (run_id);

create table running (
  run_id uuid primary key, job_id uuid not null, uid int not null, class_id int not null,
  due bigint not null, wanted bigint not null, nominal bigint, origin uuid,
  trigger smallint not null, job_version int not null, token int not null,
  failures smallint not null, losses smallint not null, lane bigint, gate bigint, meter bigint,
  updated_at bigint, parent uuid, name text, attempts bytea, checkpoint bytea, spec bytea, payload bytea,
  worker_id uuid not null, claimed_at bigint not null, cancel_at bigint, progress bytea)
  with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);
create index running_job on running (job_id) where job_id <> run_id;
create index running_lane on running (lane) where lane is not null;
create index running_gate on running (gate) where gate is not null;
create index running_meter on running (meter) where meter is not null;
create index running_mail on running (worker_id) where cancel_at is not null;

create table lanes (lane bigint primary key, width int not null);     -- the lock on a lane, and how many it admits

create table meters (                                 -- the lock on a meter; so many starts in any `per`
  meter bigint not null, starts int not null, per bigint not null,
  free_at bigint not null,                            -- no start is left before then, as of the last time one was granted
  next_at bigint not null,                            -- no run can be granted a start before then; 2^62: none waits for one
  check_at bigint not null default 4611686018427387904,     -- see then whether the starts given were made use of
  given int not null default 0)                       -- its rows in `grants`
  with (fillfactor = 50);
create index meters_next on meters (next_at, meter);
create index meters_check on meters (check_at, meter);
alter table meters add primary key (meter);

create table grants (                                 -- starts given, as long as they count
  meter bigint not null, at bigint not null, run_id uuid not null,
  token int not null, due bigint not null);           -- of the run as it waited for it
create index grants_newest on grants (meter, at);

create table history (
  run_id uuid not null, job_id uuid not null, uid int not null, class_id int not null, state smallint not null,
  wanted bigint not null, nominal bigint, origin uuid, trigger smallint not null, job_version int not null, token int not null,
  failures smallint not null, losses smallint not null, parent uuid, started_at bigint, ended_at bigint not null, worker_id uuid,
  error_type text, error text, result bytea, attempts bytea, name text, spec bytea, payload bytea)
  partition by range (ended_at);
create index history_user on history (uid, ended_at, run_id);
create index history_name on history (uid, name, ended_at, run_id) where name is not null;
create index history_job on history (job_id, ended_at, run_id) where job_id <> run_id;
create index history_run on history (run_id);

create table dead (                                   -- open dead letters, whole: history may drop their runs
  like history including defaults);
create index dead_newest on dead (ended_at, run_id);
create index dead_user on dead (uid, ended_at, run_id);
alter table dead add primary key (run_id);

create table ledger (                                 -- only what did not become a run, as stretches
  job_id uuid not null, first_at bigint not null, last_at bigint not null, n int not null, outcome text not null,
  reason text not null, run_id uuid, at bigint not null, entry_id bigint generated always as identity) partition by range (at);
create index ledger_job on ledger (job_id, last_at, entry_id);

create table audit (
  at bigint not null, deed_id bigint generated always as identity, uid int, key_id uuid, action text not null, object_id uuid,
  detail bytea, address text) partition by range (at);
create index audit_newest on audit (at, deed_id);
create index audit_user on audit (uid, at, deed_id);

create table run_logs (run_id uuid not null, number bigint not null, text bytea not null, at bigint not null) partition by range (at);
create index run_logs_run on run_logs (run_id, number);

create table pieces (                                 -- the partitions there are; adjoining pieces may differ in width
  parent text not null, name text primary key, from_at bigint not null, until_at bigint not null);

-- Idempotency keys in two generations: `repeats_turn` says which one gets new ones, and the other is emptied whole.
create table repeats_0 (uid int, key_hash bytea, body_hash bytea not null, made uuid not null, answer bytea, primary key (uid, key_hash));
create table repeats_1 (like repeats_0 including all);
create table repeats_turn (current int not null, since bigint not null);
insert into repeats_turn values (0, 0);

create table tally (uid int not null, class_id int not null, what text not null, n bigint not null);   -- appended; folded once a second
create table counters (uid int, class_id int, what text, n bigint not null, primary key (uid, class_id, what)) with (fillfactor = 50);

-- Runs with the same columns whatever their place, and jobs whatever their kind: what the reading statements select from.
-- Definitions are read apart: a page of runs must not carry a page of payloads.
create view waiting_runs as select run_id, job_id, uid, class_id, 0::smallint as state, due, wanted, nominal, trigger, token, failures, losses,  -- state: 0 waiting
  job_version, held, null::bigint as started_at, null::bigint as ended_at, null::bigint as cancel_at, null::uuid as worker_id,
  null::text as error_type, null::text as error, null::bytea as result, attempts, null::bytea as payload, null::bytea as spec, null::bytea as progress, parent from waiting;
create view running_runs as select run_id, job_id, uid, class_id, 1::smallint as state, due, wanted, nominal, trigger, token, failures, losses,  -- state: 1 running
  job_version, 0::smallint as held, claimed_at as started_at, null::bigint as ended_at, cancel_at, worker_id,  -- held: 0 no
  null::text as error_type, null::text as error, null::bytea as result, attempts, null::bytea as payload, null::bytea as spec, progress, parent from running;
create view ended_runs as select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses,
  job_version, 0::smallint as held, started_at, ended_at, null::bigint as cancel_at, worker_id,  -- held: 0 no
  error_type, error, result, attempts, null::bytea as payload, null::bytea as spec, null::bytea as progress, parent from history;
create view dead_runs as select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses,
  job_version, 0::smallint as held, started_at, ended_at, null::bigint as cancel_at, worker_id,  -- held: 0 no
  error_type, error, result, attempts, payload, spec, null::bytea as progress, parent from dead;
create view one_shots as
  select run_id as job_id, uid, class_id, job_version, name, spec, payload, updated_at, null::bigint as ended_at, 0::smallint as state, held,  -- state: 0 waiting
    wanted as next_at, failures + losses > 0 as tried from waiting where run_id = job_id and spec is not null
  union all select run_id, uid, class_id, job_version, name, spec, payload, updated_at, null, case when cancel_at is null then 1 else 4 end, 0, null, true  -- state: 1 running, 4 cancelled
    from running where run_id = job_id and spec is not null
  union all select run_id, uid, class_id, job_version, name, spec, payload, null, ended_at, state, 0, null, true
    from history where run_id = job_id and spec is not null;
