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
