-- A worker that was declared dead holds nothing, even before its runs are recovered. All that runs is read: an index by
-- worker would cost every claim and settle.
select run_id, token, claimed_at from running where worker_id = $1 and exists (select from workers where worker_id = $1)
