-- Ages are computed by the server's own clock, which wrote them. A partition that is dropped meanwhile has no size.
select pg_total_relation_size('waiting') as waiting, pg_total_relation_size('running') as running,
  w.n_dead_tup as waiting_dead, r.n_dead_tup as running_dead,
  w.autovacuum_count as waiting_vacuums, r.autovacuum_count as running_vacuums,
  extract(epoch from clock_timestamp() - w.last_autovacuum)::float8 as waiting_ago,
  extract(epoch from clock_timestamp() - r.last_autovacuum)::float8 as running_ago,
  h.history, h.pieces, pg_database_size(current_database()) as database,
  pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as wal
from pg_stat_user_tables w, pg_stat_user_tables r,
  (select coalesce(sum(pg_total_relation_size(relid)), 0)::bigint as history, count(*) filter (where isleaf) as pieces
   from pg_partition_tree('history')) h
where w.relid = 'waiting'::regclass and r.relid = 'running'::regclass
