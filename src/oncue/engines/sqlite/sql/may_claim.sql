-- A worker that was declared dead gets nothing, even if it has not noticed; nor does one that is drained.
select 1 from workers where worker_id = ? and drain_at is null
