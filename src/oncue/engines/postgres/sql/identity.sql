-- Of functions that every role may call. The control file's own timeline is that of the last checkpoint.
select
  (select system_identifier from pg_control_system()) as system,
  ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int as timeline,
  extract(epoch from pg_postmaster_start_time())::float8 as started
