-- Stable keys after ($1, $2). Runs before the history that ends before $5 is dropped: putting a cancelled job again creates it
-- again and needs no key; a job that was put and has finished must not run twice, as long as it is remembered at all ($6).
-- Each by its key: as a join this would read all of history.
with bite as (select uid, key, job_id, definition from job_keys where (uid, key) > ($1, $2) order by uid, key limit $3),
gone as (
  delete from job_keys k using bite s where k.uid = s.uid and k.key = s.key and k.job_id = s.job_id and s.job_id < $4
    and (coalesce((select state = 4 or s.definition is null from history where run_id = s.job_id and ended_at < $5 limit 1), false)  -- state: 4 cancelled
      or (s.definition is null or s.job_id < $6)
        and (select job_id from jobs where job_id = s.job_id) is null
        and (select run_id from waiting where run_id = s.job_id) is null
        and (select run_id from running where run_id = s.job_id) is null
        and (select run_id from dead where run_id = s.job_id) is null
        and (select run_id from history where run_id = s.job_id limit 1) is null))
select uid, key from bite order by uid desc, key desc limit 1
