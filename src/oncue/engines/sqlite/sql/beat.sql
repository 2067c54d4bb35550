-- `beat_at` differs each time, also when the clock was set back to where it was.
update workers set beat_at = ?1 + (beat_at = ?1), draining = ?2, classes = coalesce(?3, classes), load = coalesce(?5, load) where worker_id = ?4 returning drain_at
