-- The place among the living lets workers share out a burst without talking to each other. Who drains takes no share.
select count(*) filter (where worker_id < ?1), count(*) from workers where not draining or worker_id = ?1
