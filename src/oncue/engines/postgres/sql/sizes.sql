-- Partitions count as the table they belong to; indexes and what is stored apart as their table.
select coalesce(p.relname, c.relname)::text as name, sum(pg_total_relation_size(c.oid))::bigint as bytes
from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
where c.relkind = 'r' and c.relnamespace = (select relnamespace from pg_class where oid = to_regclass('waiting'))
  and coalesce(p.relname, c.relname) = any($1::text[])
group by 1
