-- Before the history that ended before $2 goes. Whoever puts a job that was cancelled again makes it anew, and needs no key for
-- that; one that was put and has finished must not run twice. Each by its key: as a join this would read all of history.
delete from job_keys k where k.job_id < $1
  and (select state = 4 or k.definition is null from history where run_id = k.job_id and ended_at < $2 limit 1)
