-- The oldest piece, also one that is half dropped, that ended before its table's instant and is not archived.
select p.parent, p.name, p.from_at, p.until_at from pieces p join unnest($1::text[], $2::bigint[]) t(parent, before) using (parent)
where p.until_at <= t.before and p.archived_rows is null order by p.until_at, p.parent limit 1
