-- Restored tables have no statistics. A parent takes its partitions along.
do $$
declare one regclass;
begin
  for one in
    select oid from pg_class
    where relnamespace = quote_ident(current_schema())::regnamespace and relkind in ('r', 'p') and not relispartition
      and pg_has_role(relowner, 'usage')
  loop
    execute format('analyze %s', one);
  end loop;
end $$
