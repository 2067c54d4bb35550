-- What is in our schema, and neither ours, nor a partition or a sequence of ours.
select c.relname from pg_class c
left join pg_depend d on c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid
  and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')
join pg_class t on t.oid = coalesce(pg_partition_root(coalesce(d.refobjid, c.oid)), d.refobjid, c.oid)
where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  and t.relname <> all($1::text[])
order by 1
