-- Sessions by database, because those of other roles are not shown one by one to everybody.
select
  current_setting('server_version_num')::int as version,
  current_setting('server_version') as version_name,
  current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as synchronous_commit,
  (select coalesce(sum(numbackends), 0)::int from pg_stat_database) as connections,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most_connections,
  has_schema_privilege(current_schema(), 'create') as may_create
