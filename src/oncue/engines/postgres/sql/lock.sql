-- Each schema has its own locks: those of `public` are as they were when there was no other. All that are yet to be
-- created share one.
select pg_advisory_xact_lock($1::bigint # case current_schema() when 'public' then 0 else coalesce(hashtext(current_schema()), 1) end)
