-- A worker that was declared dead gets nothing, even if it has not noticed; nor does one that is drained, and a claim that comes
-- after its worker has sent a heartbeat later than its deadline.
select 1 from workers where worker_id = ? and drain_at is null and beat_at <= ?
