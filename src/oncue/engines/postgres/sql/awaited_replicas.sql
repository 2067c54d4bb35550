select current_setting('synchronous_standby_names') as wanted,
       (select count(*) from pg_stat_activity where wait_event = 'SyncRep') as waiting,
       (select string_agg(application_name, ', ' order by application_name)
        from pg_stat_replication
        -- those that have everything hold up nobody
        where sync_state in ('sync', 'quorum') and replay_lsn is distinct from pg_current_wal_flush_lsn()) as behind
