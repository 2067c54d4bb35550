-- See lock.sql.
select pg_try_advisory_xact_lock($1::bigint # case current_schema() when 'public' then 0 else hashtext(current_schema()) end)
