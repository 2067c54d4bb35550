-- Callers that add the same run at once come one after the other; the order keeps two batches from waiting for each other.
select pg_advisory_xact_lock(id) from (select unnest($1::bigint[]) as id order by 1) sorted
