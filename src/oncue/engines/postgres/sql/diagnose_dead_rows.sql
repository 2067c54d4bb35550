select relname, n_dead_tup from pg_stat_user_tables
where schemaname = current_schema() and n_dead_tup > $1 and n_dead_tup > n_live_tup
order by n_dead_tup desc, relname limit 5
