select relname from pg_class
where relnamespace = quote_ident(current_schema())::regnamespace and relname = any($1::text[]) and relkind in ('r', 'p')
  and not (
    has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
    and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete')
  )
order by relname
