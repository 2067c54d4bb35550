-- Each schema has its own locks: those of `public` are as they were when there was no other.
select pg_advisory_xact_lock($1::bigint # case current_schema() when 'public' then 0 else hashtext(current_schema()) end)
