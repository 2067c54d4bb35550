-- In the schema where new tables are created, whoever owns them.
select relname from pg_class
where relnamespace = quote_ident(current_schema())::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') and not relispartition
order by relname
limit 1000
