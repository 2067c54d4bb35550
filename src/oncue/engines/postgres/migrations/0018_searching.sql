-- Names, keys and tags in the order of code points: a prefix is then a range of an index, in any database. What compares them
-- for equality goes on as before.
drop view one_shots;
alter table jobs alter column name type text collate "C";
alter table waiting alter column name type text collate "C";
alter table running alter column name type text collate "C";
alter table history alter column name type text collate "C";
alter table dead alter column name type text collate "C";
alter table job_keys alter column key type text collate "C";
alter table job_tags alter column tag type text collate "C";
create view one_shots as
  select run_id as job_id, uid, class_id, job_version, name, spec, payload, updated_at, null::bigint as ended_at, 0::smallint as state, held,  -- state: 0 waiting
    wanted as next_at, failures + losses > 0 as tried from waiting where run_id = job_id and spec is not null
  union all select run_id, uid, class_id, job_version, name, spec, payload, updated_at, null, case when cancel_at is null then 1 else 4 end, 0, null, true  -- state: 1 running, 4 cancelled
    from running where run_id = job_id and spec is not null
  union all select run_id, uid, class_id, job_version, name, spec, payload, null, ended_at, state, 0, null, true
    from history where run_id = job_id and spec is not null;

create table worker_names (                           -- outlives the worker, as long as the history in which it is named
  worker_id uuid not null, name text not null, registered_at bigint not null);
create index worker_names_registered on worker_names (registered_at);
alter table worker_names add primary key (worker_id);
insert into worker_names select worker_id, name, started_at from workers;

-- The views of runs, with the name that a one-shot has. Apart, because older processes take the others with all their columns.
create view named_waiting as select run_id, job_id, uid, class_id, 0::smallint as state, due, wanted, nominal, trigger, token, failures, losses,  -- state: 0 waiting
  job_version, held, null::bigint as started_at, null::bigint as ended_at, null::bigint as cancel_at, null::uuid as worker_id,
  null::text as error_type, null::text as error, null::bytea as result, attempts, null::bytea as payload, null::bytea as spec, null::bytea as progress, parent, name from waiting;
create view named_running as select run_id, job_id, uid, class_id, 1::smallint as state, due, wanted, nominal, trigger, token, failures, losses,  -- state: 1 running
  job_version, 0::smallint as held, claimed_at as started_at, null::bigint as ended_at, cancel_at, worker_id,  -- held: 0 no
  null::text as error_type, null::text as error, null::bytea as result, attempts, null::bytea as payload, null::bytea as spec, progress, parent, name from running;
create view named_ended as select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses,
  job_version, 0::smallint as held, started_at, ended_at, null::bigint as cancel_at, worker_id,  -- held: 0 no
  error_type, error, result, attempts, null::bytea as payload, null::bytea as spec, null::bytea as progress, parent, name from history;
create view named_dead as select run_id, job_id, uid, class_id, state, wanted as due, wanted, nominal, trigger, token, failures, losses,
  job_version, 0::smallint as held, started_at, ended_at, null::bigint as cancel_at, worker_id,  -- held: 0 no
  error_type, error, result, attempts, payload, spec, null::bytea as progress, parent, name from dead;
