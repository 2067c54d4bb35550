-- No row: buried. The place among the living lets workers share out a burst without talking to each other.
with me as (update workers set beat_at = greatest(beat_at, $2), draining = $3, classes = coalesce($4, classes) where worker_id = $1 returning worker_id)
select (select count(*) from workers where not draining and worker_id < $1) as place, (select count(*) from workers where not draining) as peers from me
