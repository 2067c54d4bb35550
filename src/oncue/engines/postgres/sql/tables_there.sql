select relname from pg_class
where relnamespace = to_regnamespace(quote_ident($1))
  and relname = any($2::text[]) and relkind in ('r', 'p', 'v', 'm', 'f')
order by relname
