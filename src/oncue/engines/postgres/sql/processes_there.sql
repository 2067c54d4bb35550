-- Of no other store: the sessions of a process do not say which schema it uses.
select application_name, count(*)::int from pg_stat_activity
where datname = current_database()
  and application_name in ('oncue api', 'oncue scheduler', 'oncue supervisor', 'oncue worker', 'oncue up')
  and not exists (select from pg_class where relname = 'oncue_schema')
group by 1 order by 1
