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

create table worker_names (                           -- outlive workers, as long as the history that refers to them
  worker_id uuid not null, name text not null, seen_at bigint not null);
create index worker_names_seen on worker_names (seen_at);
alter table worker_names add primary key (worker_id);
insert into worker_names select worker_id, name, beat_at from workers;
