-- No row: buried. Another `beat_at` each time, also when the clock was set back to where it was. The place among the living lets
-- workers share out a burst without talking to each other.
with me as (
  update workers set beat_at = $2::bigint + (beat_at = $2::bigint)::int, draining = $3, classes = coalesce($4, classes) where worker_id = $1
  returning worker_id)
select (select count(*) from workers where not draining and worker_id < $1) as place, (select count(*) from workers where not draining) as peers from me
