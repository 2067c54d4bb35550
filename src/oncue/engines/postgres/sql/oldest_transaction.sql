-- Of those that keep dead rows from being removed. Those of other roles have no start, unless we may read all statistics.
select (extract(epoch from clock_timestamp() - min(t.at)) * 1000000)::bigint from (
  select xact_start as at from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() and (backend_xmin is not null or backend_xid is not null)
  union all
  select prepared from pg_prepared_xacts where database = current_database()) t
