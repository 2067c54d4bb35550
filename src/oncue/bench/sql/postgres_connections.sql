select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
