-- name: postgres_calls
select coalesce(sum(s.calls), 0)::bigint from pg_stat_statements s join pg_database d on d.oid = s.dbid where d.datname = current_database()

-- name: postgres_connections
select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()

-- name: postgres_finished
-- One-shots of one user and class that have succeeded within the last ten seconds or so, a microsecond apart.
insert into history (run_id, job_id, uid, class_id, state, wanted, nominal, trigger, job_version, token, failures,
  losses, started_at, ended_at, worker_id, spec, payload)
select id, id, $4::int, $5::int, 2, at, at, 0, 1, 1, 0,
  0, at, at, $6::uuid, '{"task":"note","schedule":{"at":1794777050567281}}', '{}'
from (select (lpad(to_hex($3::bigint / 1000 - 9000000 + i / 1000), 12, '0')
    || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid as id,
  $3::bigint - 10000000 + i as at from generate_series($1::bigint, $2::bigint) i) made

-- name: postgres_future
-- One-shots of one user and class that are due from tomorrow on, a millisecond apart.
insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, spec, payload)
select id, id, $4::int, $5::int, at, at, at, 0, 1,
  '{"task":"note","schedule":{"at":1794777050567281}}', '{}'
from (select (lpad(to_hex($3::bigint / 1000 + i / 1000), 12, '0')
    || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid as id,
  $3::bigint + 86400000000 + i * 1000 as at from generate_series($1::bigint, $2::bigint) i) made

-- name: postgres_state
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

-- name: postgres_transactions
select xact_commit + xact_rollback from pg_stat_database where datname = current_database()
