-- A worker that was declared dead holds nothing, even before its runs are recovered.
select run_id, token, claimed_at from running where worker_id = ?1 and exists (select 1 from workers where worker_id = ?1)
