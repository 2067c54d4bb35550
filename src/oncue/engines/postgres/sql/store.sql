-- name: lock
-- Each schema has its own locks: those of `public` are as they were when there was no other. All that are yet to be
-- created share one.
select pg_advisory_xact_lock($1::bigint # case current_schema() when 'public' then 0 else coalesce(hashtext(current_schema()), 1) end)

-- name: hold_partitions
-- Until the transaction ends, none is dropped. Before its snapshot, which would otherwise have some that are gone.
lock table history, ledger, audit, run_logs in access share mode

-- name: tables_of_others
-- What is in our schema, and neither ours, nor a partition or a sequence of ours.
select c.relname from pg_class c
left join pg_depend d on c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid
  and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')
join pg_class t on t.oid = coalesce(pg_partition_root(coalesce(d.refobjid, c.oid)), d.refobjid, c.oid)
where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  and t.relname <> all($1::text[])
order by 1

-- name: analyze
-- Restored tables have no statistics. A parent takes its partitions along.
do $$
declare one regclass;
begin
  for one in
    select oid from pg_class
    where relnamespace = quote_ident(current_schema())::regnamespace and relkind in ('r', 'p') and not relispartition
      and pg_has_role(relowner, 'usage')
  loop
    execute format('analyze %s', one);
  end loop;
end $$

-- name: contents
-- Jobs, runs and keys: how many there are, and the sum of hashes of each with its state, which needs no order.
select kind, count(*), sum(('x' || left(md5(concat_ws(' ', kind, id, state, token)), 15))::bit(60)::bigint)::text
from (
  select 'jobs' as kind, job_id as id, status::text as state, version as token from jobs
  union all select 'runs', run_id, 'waiting', token from waiting
  union all select 'runs', run_id, 'running', token from running
  union all select 'runs', run_id, state::text, token from history
  union all select 'keys', key_id, role, (revoked_at is not null)::int from keys
) as found
group by kind

-- name: tables_there
select relname from pg_class
where relnamespace = to_regnamespace(quote_ident($1))
  and relname = any($2::text[]) and relkind in ('r', 'p', 'v', 'm', 'f')
order by relname

-- name: processes_there
-- Of no other store: the sessions of a process do not say which schema it uses.
select application_name, count(*)::int from pg_stat_activity
where datname = current_database()
  and application_name in ('oncue api', 'oncue scheduler', 'oncue supervisor', 'oncue worker', 'oncue up')
  and not exists (select from pg_class where relname = 'oncue_schema')
group by 1 order by 1

-- name: rights_there
-- Whether there is this schema, and whether it is this user's.
select nspowner is not null, coalesce(pg_has_role(nspowner, 'usage'), false), current_user::text
from (select $1::text as name) given left join pg_namespace on nspname = given.name

-- name: tables_without_rights
select relname from pg_class
where relnamespace = quote_ident(current_schema())::regnamespace and relname = any($1::text[]) and relkind in ('r', 'p')
  and not (
    has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
    and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete')
  )
order by relname

-- name: diagnose_server
-- Sessions by database, because those of other roles are not shown one by one to everybody.
select
  current_setting('server_version_num')::int as version,
  current_setting('server_version') as version_name,
  current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as synchronous_commit,
  (select coalesce(sum(numbackends), 0)::int from pg_stat_database) as connections,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most_connections,
  has_schema_privilege(current_schema(), 'create') as may_create

-- name: oldest_transaction
-- Of those that keep dead rows from being removed. Those of other roles have no start, unless we may read all statistics.
select (extract(epoch from clock_timestamp() - min(t.at)) * 1000000)::bigint from (
  select xact_start as at from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() and (backend_xmin is not null or backend_xid is not null)
  union all
  select prepared from pg_prepared_xacts where database = current_database()) t

-- name: diagnose_dead_rows
select relname, n_dead_tup from pg_stat_user_tables
where schemaname = current_schema() and n_dead_tup > $1 and n_dead_tup > n_live_tup
order by n_dead_tup desc, relname limit 5

-- name: now
select (extract(epoch from clock_timestamp()) * 1000000)::bigint

-- name: place
select current_setting('server_encoding'), current_schema()

-- name: identity
-- Of functions that every role may call. The control file's own timeline is that of the last checkpoint.
-- `notes`: what processes that know a newer primary keep saying here, by the name of a session of this very user.
-- Texts are read by us: each further function or cast is one more thing that a new session has to look up.
select
  system_identifier as system,
  pg_walfile_name(pg_current_wal_lsn()) as segment,
  pg_postmaster_start_time() as started,
  (select string_agg(other.application_name, ',')
    from pg_stat_get_activity(pg_backend_pid()) mine, pg_stat_get_activity(null) other
    where other.datid = mine.datid and other.usesysid = mine.usesysid
    and other.application_name like 'oncue: timeline %') as notes
from pg_control_system()

-- name: other_tables
-- In the schema where new tables are created, whoever owns them.
select relname from pg_class
where relnamespace = quote_ident(current_schema())::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') and not relispartition
order by relname
limit 1000

-- name: pieces
-- Attached: rows go there. A detached one was half dropped; the next maintenance, or a write to its time range, finishes that.
select p.parent, p.name, p.from_at, p.until_at, p.archived_rows, coalesce(not i.inhdetachpending, false) as attached
from pieces p left join pg_inherits i on i.inhrelid = to_regclass(p.name) order by p.until_at

-- name: probe
insert into probe as p (one, n) values (true, 1) on conflict (one) do update set n = p.n + 1

-- name: awaited_replicas
select current_setting('synchronous_standby_names') as wanted,
       (select count(*) from pg_stat_activity where wait_event = 'SyncRep') as waiting,
       (select string_agg(application_name, ', ' order by application_name)
        from pg_stat_replication
        -- those that have everything hold up nobody
        where sync_state in ('sync', 'quorum') and replay_lsn is distinct from pg_current_wal_flush_lsn()) as behind
