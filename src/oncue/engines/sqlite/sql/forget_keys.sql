-- Before the piece goes. Whoever puts a job that was cancelled again makes it anew, and needs no key for that; one that was put
-- and has finished must not run twice, and its key stays.
delete from job_keys where (select state = 4 or job_keys.definition is null from {piece} p where p.run_id = job_keys.job_id)
