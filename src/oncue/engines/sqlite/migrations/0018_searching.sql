create table worker_names (                           -- outlives the worker, as long as the history in which it is named
  worker_id blob primary key, name text not null, registered_at integer not null) without rowid;
create index worker_names_registered on worker_names (registered_at);
insert into worker_names select worker_id, name, started_at from workers;

-- The view of runs, with the name that a one-shot has. Apart, because older processes take the other with all its columns.
create view named_runs as select r.run_id, r.job_id, r.uid, r.class_id, x.run_id is not null as state, r.due, r.wanted, r.nominal, r.trigger,
  coalesce(x.token, r.token) as token, r.failures, r.losses, r.job_version, r.held, x.claimed_at as started_at, null as ended_at, x.cancel_at,
  x.worker_id, null as error_type, null as error, null as result, r.attempts, r.payload, r.spec, x.progress, r.parent, r.name
  from runs r left join running x on x.run_id = r.run_id;
