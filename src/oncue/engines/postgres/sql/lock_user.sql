-- See lock.sql.
select pg_advisory_xact_lock($1::int # case current_schema() when 'public' then 0 else hashtext(current_schema()) end, $2::int)
