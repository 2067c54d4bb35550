-- With its place among live workers, each takes its share of a burst without talking to the others. A draining worker takes none.
select count(*) filter (where worker_id < ?1), count(*) from workers where not draining and drain_at is null or worker_id = ?1
